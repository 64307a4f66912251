//! The parent of a container's first process. `unshare` gives new namespaces to the processes that this one starts, so
//! its only child is the first in a PID namespace of its own; how that child ends is how this process ends, exit code
//! or signal, for the node to see.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use rustix::process::{Signal, getpid, kill_process};

/// Runs the container that the file `plan` describes, and ends as it ends.
///
/// # Errors
/// When it cannot be started.
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
    // Signals without an effect on this process leave the shell's way to say it.
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}
