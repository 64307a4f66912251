//! Active health checks of endpoints (annotations `sluice.dev/health-check-*`).

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Settings of an active health check. Equal checks of pools on one Service port run once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HealthCheck {
    /// Kind of the check.
    pub kind: CheckKind,
    /// Port of the check; `None` is the endpoint's port.
    pub port: Option<u16>,
    /// Time between two checks of an endpoint.
    pub interval: Duration,
    /// Time limit for a whole check, including the connection.
    pub timeout: Duration,
    /// Consecutive successes that make an unhealthy endpoint healthy.
    pub healthy: u32,
    /// Consecutive failures that make a healthy endpoint unhealthy.
    pub unhealthy: u32,
}

/// The kind of a health check.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CheckKind {
    /// Succeeds if a connection is established.
    Tcp,
    /// Succeeds if a GET returns one of these statuses. Uses unverified TLS if the pool uses TLS.
    Http {
        /// Path of the request; it begins with a slash.
        path: Arc<str>,
        /// The `Host` field.
        host: Arc<str>,
        /// Accepted statuses.
        statuses: Arc<[StatusRange]>,
    },
    /// Succeeds if the standard gRPC health service reports `SERVING`. Uses unverified TLS if the
    /// pool uses TLS.
    Grpc {
        /// `:authority`.
        host: Arc<str>,
        /// Service name in the request; empty for the whole server.
        service: Arc<str>,
    },
}

/// An inclusive range of statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StatusRange {
    /// First status.
    pub first: u16,
    /// Last status.
    pub last: u16,
}

impl StatusRange {
    /// Converts it to a standard range.
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

/// Prints every field, because the text is part of pool keys:
/// `http GET /healthz of localhost is 200-399, each 10s, 5s, 2 up, 3 down`.
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
