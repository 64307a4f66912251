//! Streams: TCP connections and UDP datagrams that are forwarded without being interpreted.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::name::ServiceRef;
use crate::pool::PoolKey;
use crate::stream_log::StreamLog;

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TransportProtocol {
    /// Connections (RFC 9293).
    Tcp,
    /// Datagrams (RFC 768).
    Udp,
}

impl TransportProtocol {
    /// Returns the name in lower case, as in port names and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl fmt::Display for TransportProtocol {
    /// The name in upper case, as Kubernetes spells it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        })
    }
}

/// Identity of a TCP or UDP service: the port that clients reach it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StreamKey {
    /// Transport protocol.
    pub transport: TransportProtocol,
    /// Port.
    pub port: u16,
}

/// The target of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stream {
    /// Endpoints.
    pub pool: PoolKey,
    /// The Service, for logs, metrics and introspection.
    pub service: ServiceRef,
    /// Whether every connection must begin with a PROXY protocol header (first `:PROXY`).
    pub accepts_proxy: bool,
    /// Whether connections to endpoints begin with a PROXY protocol header, version 1 (second
    /// `:PROXY`).
    pub sends_proxy: bool,
}

/// Global settings of streams. [`StreamSettings::default`] has the defaults of ingress-nginx.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StreamSettings {
    /// Idle time in both directions together, after which a stream ends (`proxy-stream-timeout`).
    pub timeout: Duration,
    /// Whether a connection that cannot be established is tried at another endpoint
    /// (`proxy-stream-next-upstream`).
    pub next_upstream: bool,
    /// Maximum number of attempts; 0 is one attempt per endpoint
    /// (`proxy-stream-next-upstream-tries`).
    pub next_upstream_tries: u32,
    /// Time after which no further attempt begins; `None` is no limit
    /// (`proxy-stream-next-upstream-timeout`).
    pub next_upstream_timeout: Option<Duration>,
    /// Datagrams that answer one datagram of a client; a UDP session ends after the last one. With
    /// 0 no response is expected (`proxy-stream-responses`).
    pub responses: u32,
    /// The log of streams.
    pub log: StreamLog,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(600),
            next_upstream: true,
            next_upstream_tries: 3,
            next_upstream_timeout: Some(Duration::from_secs(600)),
            responses: 1,
            log: StreamLog::default(),
        }
    }
}
