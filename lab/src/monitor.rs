//! The parent of a container's first process. `unshare` applies the new namespaces to child
//! processes, so the only child of this process is the first one in a new PID namespace. This
//! process ends as its child does, with the same exit code or signal, for the node to observe.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use rustix::process::{Signal, getpid, kill_process};

/// Runs the container described by the file `plan`, and ends as it does.
///
/// # Errors
/// Returns an error if it cannot be started.
pub fn run(plan: &Path) -> Result<ExitCode> {
    let mut child = Command::new(env::current_exe()?)
        .arg("container")
        .arg(plan)
        .spawn()
        .context("cannot start the container's first process")?;
    let status = child.wait()?;
    if let Some(signal) = status.signal().and_then(Signal::from_named_raw) {
        kill_process(getpid(), signal)?;
    }
    // A signal without an effect on this process is reported as the exit code 128 + signal, as by a
    // shell.
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}
