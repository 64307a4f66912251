//! The compared proxies and their configurations: one worker, kept connections to the origin, a log
//! line per request in a file, metrics as in production, the same certificate.

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
    /// Sluice, in one of its builds.
    Sluice(Build),
    /// nginx, the base of ingress-nginx.
    Nginx,
    /// HAProxy.
    Haproxy,
    /// Envoy, the base of many gateways and meshes.
    Envoy,
    /// nghttpx, the reference for HTTP/2 clients.
    Nghttpx,
    /// Pingora with default settings.
    Vanilla,
    /// Pingora with tuned settings.
    Tuned,
}

impl Peer {
    /// All peers except Sluice.
    pub const OTHERS: [Self; 6] =
        [Self::Nginx, Self::Haproxy, Self::Envoy, Self::Nghttpx, Self::Vanilla, Self::Tuned];

    /// Returns the name, also for `--peers`.
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

    /// Returns the version.
    ///
    /// # Errors
    /// The program is missing; the message states how to install it.
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

    /// Writes the configuration and returns the command that runs the proxy in the foreground.
    ///
    /// # Errors
    /// The program is missing, or its configuration cannot be written.
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
