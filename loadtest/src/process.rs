//! The gateway as a child process of a load program: [`sluice_testing::gateway`], beside the load and not in its way.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use sluice_testing::gateway::{Addresses, Gateway, Source, serve};
use tokio::task::spawn_blocking;

/// How long a gateway may take to be ready or to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// The command that serves a source with the settings of `default/sluice`.
pub fn serve_command(program: &Path, source: Source<'_>, addresses: &Addresses) -> Command {
    let mut command = serve(Command::new(program), source, addresses);
    command.args(["--configmap", "default/sluice"]);
    command
}

/// Starts the program on a source, with metrics and without anybody who reads its access log, and waits until it is ready.
///
/// # Errors
/// It cannot be started, ends at once, or is not ready in time; its log is in the message.
pub async fn start(program: &Path, source: Source<'_>) -> anyhow::Result<Gateway> {
    let addresses = Addresses::reserve();
    let mut command = serve_command(program, source, &addresses);
    command.arg("--enable-metrics").stdout(Stdio::null());
    let launch = spawn_blocking(move || Gateway::launch(command, addresses, PATIENCE));
    launch.await?.with_context(|| format!("cannot serve with {}", program.display()))
}

/// Ends it as Kubernetes does, and waits for it.
///
/// # Errors
/// It does not end in time, or not well.
pub async fn stop(gateway: Gateway) -> anyhow::Result<()> {
    Ok(spawn_blocking(move || gateway.stop(PATIENCE)).await??)
}
