//! The gateway as a child process of a load program ([`sluice_testing::gateway`]).

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use sluice_testing::gateway::{Addresses, Gateway, Source, serve};
use tokio::task::spawn_blocking;

/// Time limit for the start and the end of a gateway.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Returns the command that serves a source with the settings of `default/sluice`.
pub fn serve_command(program: &Path, source: Source<'_>, addresses: &Addresses) -> Command {
    let mut command = serve(Command::new(program), source, addresses);
    command.args(["--configmap", "default/sluice"]);
    command
}

/// Starts the program on a source, with metrics and a discarded access log, and waits until it is
/// ready.
///
/// # Errors
/// It cannot be started, exits at once, or is not ready in time; the message contains its log.
pub async fn start(program: &Path, source: Source<'_>) -> anyhow::Result<Gateway> {
    let addresses = Addresses::reserve();
    let mut command = serve_command(program, source, &addresses);
    command.arg("--enable-metrics").stdout(Stdio::null());
    let launch = spawn_blocking(move || Gateway::launch(command, addresses, TIMEOUT));
    launch.await?.with_context(|| format!("cannot serve with {}", program.display()))
}

/// Ends it as Kubernetes does, and waits for it.
///
/// # Errors
/// It does not end in time, or fails.
pub async fn stop(gateway: Gateway) -> anyhow::Result<()> {
    Ok(spawn_blocking(move || gateway.stop(TIMEOUT)).await??)
}
