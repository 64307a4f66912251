//! Pingora: the two programs next to this one.

use std::path::PathBuf;
use std::process::Command;

use crate::bench::setup::Setup;

/// The release with which both are built.
const VERSION: &str = "0.9.1";

/// Returns the command that runs `vanilla-pingora` or `tuned-pingora`.
pub(super) fn command(program: &str, setup: &Setup) -> anyhow::Result<Command> {
    let mut command = Command::new(find(program)?);
    command.args([setup.http.to_string(), setup.https.to_string()]);
    command.args([setup.file("tls.crt"), setup.file("tls.key")]);
    command.arg(setup.origin.to_string());
    Ok(command)
}

/// Returns its version if the program exists.
pub(super) fn version(program: &str) -> anyhow::Result<String> {
    find(program).map(|_| VERSION.to_owned())
}

fn find(program: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(program);
    anyhow::ensure!(
        path.is_file(),
        "{} is missing; build it with: cargo build -p sluice-loadtest --bins",
        path.display()
    );
    Ok(path)
}
