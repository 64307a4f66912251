//! Active health checks of endpoints (annotations `sluice.dev/health-check-*`).

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How the endpoints of a pool are checked. Equal checks of pools on one Service port are done once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HealthCheck {
    /// What is asked.
    pub kind: CheckKind,
    /// At which port; `None` is that of the endpoint.
    pub port: Option<u16>,
    /// From one check of an endpoint to the next.
    pub interval: Duration,
    /// For a whole check, the connection included.
    pub timeout: Duration,
    /// Successes in a row that make an unhealthy endpoint healthy.
    pub healthy: u32,
    /// Failures in a row that make a healthy endpoint unhealthy.
    pub unhealthy: u32,
}

/// What a check asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CheckKind {
    /// Whether a connection comes about.
    Tcp,
    /// Whether a GET is answered with one of these statuses. Over TLS where requests are, not verified.
    Http {
        /// Begins with a slash.
        path: Arc<str>,
        /// The `Host` field.
        host: Arc<str>,
        /// From and to.
        statuses: Arc<[StatusRange]>,
    },
    /// Whether the standard health service of gRPC says `SERVING`. Over TLS where requests are, not verified.
    Grpc {
        /// `:authority`.
        host: Arc<str>,
        /// The service that is asked for; empty is the whole server.
        service: Arc<str>,
    },
}

/// Statuses from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StatusRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

impl StatusRange {
    /// As a range.
    pub fn range(self) -> RangeInclusive<u16> {
        self.first..=self.last
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

/// All of it, so that it can be part of a name: `http GET /healthz of localhost is 200-399, each 10s, 5s, 2 up, 3 down`.
impl fmt::Display for HealthCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, port, interval, timeout, healthy, unhealthy } = self;
        match kind {
            CheckKind::Tcp => write!(f, "tcp connection")?,
            CheckKind::Http { path, host, statuses } => {
                write!(f, "http GET {path} of {host} is ")?;
                for (index, range) in statuses.iter().enumerate() {
                    write!(f, "{}{range}", if index > 0 { "," } else { "" })?;
                }
            }
            CheckKind::Grpc { host, service } => {
                write!(f, "grpc service \"{service}\" of {host} is SERVING")?
            }
        }
        if let Some(port) = port {
            write!(f, " at port {port}")?;
        }
        write!(f, ", each {interval:?}, {timeout:?}, {healthy} up, {unhealthy} down")
    }
}
