//! The proxies that are held against each other, and how each is run: one worker, connections to the origin kept,
//! a log line per request in a file, metrics as production has them, the same certificate.

mod envoy;
mod haproxy;
mod nghttpx;
mod nginx;
mod pingora;
mod sluice;

use std::process::Command;

pub use sluice::{Build, ENDPOINTS};

use super::setup::Setup;

/// A proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// This one, in one of its builds.
    Sluice(Build),
    /// The base of ingress-nginx.
    Nginx,
    /// The other classic.
    Haproxy,
    /// The base of many gateways and meshes.
    Envoy,
    /// The reference for HTTP/2 clients.
    Nghttpx,
    /// Pingora as it comes.
    Vanilla,
    /// Pingora with settings.
    Tuned,
}

impl Peer {
    /// All that are not Sluice.
    pub const OTHERS: [Self; 6] =
        [Self::Nginx, Self::Haproxy, Self::Envoy, Self::Nghttpx, Self::Vanilla, Self::Tuned];

    /// What it is called, here and with `--peers`.
    pub fn name(&self) -> &str {
        match self {
            Self::Sluice(build) => &build.name,
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
            Self::Nghttpx => "nghttpx",
            Self::Vanilla => "vanilla",
            Self::Tuned => "tuned",
        }
    }

    /// Its version.
    ///
    /// # Errors
    /// It is not there; the message says how to install it.
    pub fn version(&self) -> anyhow::Result<String> {
        match self {
            Self::Sluice(build) => sluice::version(build),
            Self::Nginx => nginx::version(),
            Self::Haproxy => haproxy::version(),
            Self::Envoy => envoy::version(),
            Self::Nghttpx => nghttpx::version(),
            Self::Vanilla => pingora::version("vanilla-pingora"),
            Self::Tuned => pingora::version("tuned-pingora"),
        }
    }

    /// Writes its configuration and returns the command that runs it in the foreground.
    ///
    /// # Errors
    /// It is not there, or its configuration cannot be written.
    pub fn command(&self, setup: &Setup) -> anyhow::Result<Command> {
        match self {
            Self::Sluice(build) => sluice::command(build, setup),
            Self::Nginx => nginx::command(setup),
            Self::Haproxy => haproxy::command(setup),
            Self::Envoy => envoy::command(setup),
            Self::Nghttpx => nghttpx::command(setup),
            Self::Vanilla => pingora::command("vanilla-pingora", setup),
            Self::Tuned => pingora::command("tuned-pingora", setup),
        }
    }
}
