//! Parameters of an attempt: its endpoint, protocol and time limits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_config::UpstreamProtocol;

use super::tls::EndpointTlsConfig;
use crate::registry::Endpoint;

/// Destination and parameters of an attempt.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// The endpoint.
    pub endpoint: Arc<Endpoint>,
    /// The address of the endpoint.
    pub address: SocketAddr,
    /// The endpoint's membership of its set when the attempt started ([`Endpoint::membership`]).
    pub membership: u64,
    /// The protocol of the endpoint.
    pub protocol: UpstreamProtocol,
    /// Server name for SNI; without it no SNI is sent (addresses never are, RFC 6066 §3).
    pub server_name: Option<Arc<str>>,
    /// TLS settings of the rule; without them certificates are not verified.
    pub tls: Option<Arc<EndpointTlsConfig>>,
    /// Excludes pooled connections: the previous one was stale, and others may be stale too.
    pub fresh: bool,
    /// Whether the request may be sent again after the endpoint may have started to process it: its
    /// method is idempotent, or the operator allows it (`non_idempotent`; RFC 9110 §9.2.2).
    pub repeatable: bool,
    /// Time limit for the connection and TLS, already reduced to the rest of the retry window;
    /// `None` is no limit.
    pub connect_timeout: Option<Duration>,
    /// Time limit between two reads; `None` is no limit.
    pub read_timeout: Option<Duration>,
    /// Time limit between two writes; `None` is no limit.
    pub send_timeout: Option<Duration>,
    /// Limits for the reuse of the connection by other requests.
    pub keep_alive: KeepAlive,
    /// Number of requests in flight to the endpoint when this one arrived.
    pub in_flight: u32,
    /// Start of the attempt.
    pub began: Instant,
}

impl Upstream {
    /// Returns whether a connection of this attempt may serve another request: its endpoint has
    /// remained a member of its set since the start of the attempt.
    pub(crate) fn is_member(&self) -> bool {
        self.membership != 0 && self.endpoint.membership() == self.membership
    }

    /// Returns an attempt to open a connection for a stream, without any HTTP settings.
    pub(crate) fn raw(endpoint: &Arc<Endpoint>, connect_timeout: Option<Duration>, began: Instant) -> Self {
        Self {
            address: endpoint.address(),
            membership: endpoint.membership(),
            in_flight: endpoint.in_flight(),
            endpoint: endpoint.clone(),
            protocol: UpstreamProtocol::Tcp,
            server_name: None,
            tls: None,
            fresh: true,
            repeatable: true,
            connect_timeout,
            read_timeout: None,
            send_timeout: None,
            keep_alive: KeepAlive { idle: Duration::ZERO, age: Duration::ZERO, requests: 0 },
            began,
        }
    }

    /// Returns an attempt over a plain HTTP/2 connection to an endpoint outside of all pools.
    pub(crate) fn shared(endpoint: &Arc<Endpoint>, keep_alive: KeepAlive, began: Instant) -> Self {
        Self {
            protocol: UpstreamProtocol::Grpc,
            fresh: false,
            keep_alive,
            ..Self::raw(endpoint, None, began)
        }
    }

    /// Returns an attempt at this address, as the member of a set of its own.
    #[cfg(test)]
    pub(crate) fn to(address: SocketAddr, protocol: UpstreamProtocol) -> Self {
        let endpoint = Arc::new(Endpoint::new(address, None));
        endpoint.join();
        let keep_alive =
            KeepAlive { idle: Duration::from_secs(60), age: Duration::from_secs(3600), requests: 1000 };
        Self { protocol, in_flight: 1, ..Self::shared(&endpoint, keep_alive, Instant::now()) }
    }
}

/// Limits for the reuse of upstream connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Maximum idle time (`upstream-keepalive-timeout`).
    pub idle: Duration,
    /// Maximum age (`upstream-keepalive-time`).
    pub age: Duration,
    /// Maximum number of requests (`upstream-keepalive-requests`).
    pub requests: u32,
}
