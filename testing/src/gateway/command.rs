//! The command that runs the program.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::ports;
use crate::program;

/// The addresses of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Plain HTTP.
    pub http: SocketAddr,
    /// TLS.
    pub https: SocketAddr,
    /// `/healthz`, `/livez` and `/metrics`.
    pub healthz: SocketAddr,
    /// Introspection.
    pub admin: SocketAddr,
}

/// Source of a gateway's objects.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A folder of manifests.
    Manifests(&'a Path),
    /// The API of a cluster.
    Kubeconfig(&'a Path),
}

impl Addresses {
    /// Reserves four free ports of 127.0.0.1.
    ///
    /// # Panics
    /// There are not enough free ports.
    pub fn reserve() -> Self {
        let [http, https, healthz, admin] = ports::addresses();
        Self { http, https, healthz, admin }
    }

    /// Returns the flags for these addresses.
    pub fn flags(&self) -> [String; 4] {
        [
            format!("--http-port={}", self.http.port()),
            format!("--https-port={}", self.https.port()),
            format!("--healthz-port={}", self.healthz.port()),
            format!("--admin-address={}", self.admin),
        ]
    }
}

/// Configures a program to serve a source, with both logs captured and without settings from the
/// environment.
pub fn serve(mut program: Command, source: Source<'_>, addresses: &Addresses) -> Command {
    let (flag, path) = match source {
        Source::Manifests(folder) => ("--manifests", folder),
        Source::Kubeconfig(file) => ("--kubeconfig", file),
    };
    program
        .args(["serve", flag])
        .arg(path)
        .args(addresses.flags())
        .env_remove("RUST_LOG")
        // As in the image: memory that is free for 10 ms is returned to the system.
        .env("MIMALLOC_PURGE_DELAY", "10")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    program
}

/// Runs the program to its end.
pub fn run(words: &[&str]) -> Output {
    run_with_standard_error(words, Stdio::piped())
}

/// Runs the program to its end with another standard error.
pub fn run_with_standard_error(words: &[&str], stderr: Stdio) -> Output {
    Command::new(program()).args(words).env_remove("RUST_LOG").stderr(stderr).output().unwrap()
}

/// Returns the path of the program under test.
pub(super) fn program() -> PathBuf {
    program::find("sluice").unwrap()
}
