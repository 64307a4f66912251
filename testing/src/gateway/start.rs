//! Starts of gateways for tests.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

use super::command::program;
use super::{Addresses, Gateway, Source, serve};
use crate::folder::Folder;
use crate::wait::START_PATIENCE;

/// Maximum number of attempts to start if another process takes a port in between.
const STARTS: usize = 3;

impl Gateway {
    /// Serves a folder and waits until the gateway is ready.
    #[track_caller]
    pub fn start(folder: &Folder) -> Self {
        Self::with(folder, &[])
    }

    /// Serves a folder with additional flags and waits until the gateway is ready.
    #[track_caller]
    pub fn with(folder: &Folder, flags: &[&str]) -> Self {
        Self::starts(folder, flags, Stdio::piped, || Command::new(program()))
    }

    /// Serves a folder with another standard error, which is not recorded, and waits until the
    /// gateway is ready.
    #[track_caller]
    pub fn with_standard_error(folder: &Folder, stderr: impl Fn() -> Stdio) -> Self {
        Self::starts(folder, &[], stderr, || Command::new(program()))
    }

    /// Serves a folder with an additional environment variable and waits until the gateway is
    /// ready.
    #[track_caller]
    pub fn with_environment(folder: &Folder, name: &str, value: &str) -> Self {
        Self::starts(folder, &[], Stdio::piped, || {
            let mut command = Command::new(program());
            command.env(name, value);
            command
        })
    }

    /// Serves a folder with a limit of open files and waits until the gateway is ready.
    #[track_caller]
    pub fn with_descriptors(folder: &Folder, limit: usize) -> Self {
        Self::starts(folder, &[], Stdio::piped, || {
            let mut command = Command::new("sh");
            command.arg("-c").arg(format!("ulimit -n {limit} && exec \"$0\" \"$@\"")).arg(program());
            command
        })
    }

    #[track_caller]
    fn starts(
        folder: &Folder,
        flags: &[&str],
        stderr: impl Fn() -> Stdio,
        program: impl Fn() -> Command,
    ) -> Self {
        let health = flags.iter().skip_while(|flag| **flag != "--health-check-path").nth(1);
        for _ in 0..STARTS {
            let addresses = Addresses::reserve();
            let mut command = serve(program(), Source::Manifests(folder.path()), &addresses);
            command
                .args(driver())
                .args(flags)
                .stderr(stderr())
                .env("POD_NAME", "sluice-0")
                .env("POD_NAMESPACE", "ingress-nginx")
                .env("NODE_NAME", "node-1");
            let mut gateway = Self::spawn(command, addresses, Some(folder)).unwrap();
            match gateway.await_ready(health.unwrap_or(&"/healthz"), START_PATIENCE) {
                Ok(()) => return gateway,
                Err(error) if error.port_taken => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("no start in {STARTS} found its ports free");
    }

    /// Serves a folder with exactly these flags, without waiting. Only its health address is
    /// available.
    pub fn unready(folder: &Folder, flags: &[String], healthz: SocketAddr) -> Self {
        let mut command = Command::new(program());
        command.arg("--manifests").arg(folder.path()).args(flags).env_remove("RUST_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let none = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let addresses = Addresses { http: none, https: none, healthz, admin: none };
        Self::spawn(command, addresses, Some(folder)).unwrap()
    }
}

/// Returns the flags for the engine that the environment selects. `make test` runs all tests whose
/// requests reach an engine with each of them.
fn driver() -> Vec<String> {
    let driver = std::env::var("SLUICE_DRIVER").ok();
    driver.map(|driver| vec!["--driver".into(), driver]).unwrap_or_default()
}
