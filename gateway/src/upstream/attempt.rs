//! What an attempt needs to know of its endpoint, and how long it may take.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_config::UpstreamProtocol;

use super::tls::Session;
use crate::registry::Endpoint;

/// Where an attempt goes, and how.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// The endpoint.
    pub endpoint: Arc<Endpoint>,
    /// Its address.
    pub address: SocketAddr,
    /// Its membership of its set when the attempt began ([`Endpoint::membership`]).
    pub membership: u64,
    /// What to speak.
    pub protocol: UpstreamProtocol,
    /// The name that is asked for in TLS; without one, none is (an address is never sent, RFC 6066 §3).
    pub server_name: Option<Arc<str>>,
    /// TLS as the rule wants it; without it no certificate is verified.
    pub tls: Option<Arc<Session>>,
    /// No pooled connection will do: the one before was stale, and there may be more of them.
    pub fresh: bool,
    /// Whether the request may be sent a second time after the endpoint may have begun with it: its method is
    /// idempotent, or the operator said so (`non_idempotent`; RFC 9110 §9.2.2).
    pub repeatable: bool,
    /// For the connection and TLS; `None` is no limit. Already cut to what is left of the retry window.
    pub connect_timeout: Option<Duration>,
    /// Between two reads; `None` is no limit.
    pub read_timeout: Option<Duration>,
    /// Between two writes; `None` is no limit.
    pub send_timeout: Option<Duration>,
    /// How long the connection may be used for other requests.
    pub keep_alive: KeepAlive,
    /// Requests that were on their way to the endpoint when this one came.
    pub in_flight: u32,
    /// When the attempt began.
    pub began: Instant,
}

impl Upstream {
    /// Whether a connection of this attempt may serve another request: its endpoint has been a
    /// member of its set all the time.
    pub(crate) fn is_member(&self) -> bool {
        self.membership != 0 && self.endpoint.membership() == self.membership
    }

    /// An attempt at this address, which is a member of a set of its own.
    #[cfg(test)]
    pub(crate) fn to(address: SocketAddr, protocol: UpstreamProtocol) -> Self {
        let endpoint = Arc::new(Endpoint::new(address, None));
        endpoint.join();
        Self {
            membership: endpoint.membership(),
            endpoint,
            address,
            protocol,
            server_name: None,
            tls: None,
            fresh: false,
            repeatable: true,
            connect_timeout: None,
            read_timeout: None,
            send_timeout: None,
            keep_alive: KeepAlive {
                idle: Duration::from_secs(60),
                age: Duration::from_secs(3600),
                requests: 1000,
            },
            in_flight: 1,
            began: Instant::now(),
        }
    }
}

/// The life of upstream connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Idle time (`upstream-keepalive-timeout`).
    pub idle: Duration,
    /// Age (`upstream-keepalive-time`).
    pub age: Duration,
    /// Requests (`upstream-keepalive-requests`).
    pub requests: u32,
}
