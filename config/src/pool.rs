//! Pools: endpoint sets with a policy for their use.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::endpoint::EndpointSetKey;
use crate::health_check::HealthCheck;
use crate::template::Template;

/// Identity of a pool: the Service port and every part of the policy that distinguishes pools.
/// Equal pools have equal keys, so Ingresses with equal policies share a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PoolKey {
    /// Endpoint set, shared by all pools of the Service port.
    pub endpoints: EndpointSetKey,
    /// The policy as canonical text, such as `http,ewma`. Only translation creates it.
    pub policy: Arc<str>,
}

impl fmt::Display for PoolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.endpoints, self.policy)
    }
}

/// A pool of endpoints under one policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Identity.
    pub key: PoolKey,
    /// Protocol to the endpoints.
    pub protocol: UpstreamProtocol,
    /// Load balancing for requests without a session.
    pub balance: Balance,
    /// Ramp-up time of an endpoint that is new, or was ejected or unhealthy, until it gets its full
    /// share.
    pub slow_start: Option<Duration>,
    /// Active health check; `None` disables checks.
    pub health_check: Option<Arc<HealthCheck>>,
}

/// The protocol to an endpoint (ingress-nginx `backend-protocol`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum UpstreamProtocol {
    /// HTTP/1.1 without TLS.
    Http,
    /// HTTP/1.1 over TLS; the endpoint's certificate is not verified, as in ingress-nginx without
    /// `proxy-ssl-verify`, unless the rule says otherwise ([`UpstreamTls`](crate::UpstreamTls)).
    HttpsUnverified,
    /// HTTP/2 without TLS, with prior knowledge, as gRPC uses it.
    Grpc,
    /// HTTP/2 over TLS, not verified by default either.
    GrpcsUnverified,
    /// FastCGI 1.0, as a responder's client, without TLS.
    FastCgi,
    /// Any bytes over TCP.
    Tcp,
    /// UDP datagrams.
    Udp,
}

impl UpstreamProtocol {
    /// Returns whether the protocol uses TLS.
    pub const fn has_tls(self) -> bool {
        matches!(self, Self::HttpsUnverified | Self::GrpcsUnverified)
    }

    /// Returns whether the protocol is HTTP/2.
    pub const fn is_http2(self) -> bool {
        matches!(self, Self::Grpc | Self::GrpcsUnverified)
    }
}

/// A load balancing algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Balance {
    /// The GlobalSettings's algorithm (`load-balance`).
    #[default]
    Inherit,
    /// Round robin over the requests of all clients.
    RoundRobin,
    /// Draws two endpoints and uses the one with the lower cost: a moving average of its response
    /// times, and its open requests.
    Ewma,
    /// The endpoint with the fewest open requests.
    LeastConnections,
    /// A consistent hash ring for requests with a key, round robin for others.
    Ring,
}

/// Consistent hashing: requests with equal keys get the same endpoint (ingress-nginx
/// `upstream-hash-by`). Requests without a key are balanced normally.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HashBy {
    /// Template of the key.
    pub key: Template,
    /// Number of endpoints per group. The key selects a group, and any endpoint of it may get the
    /// request (`upstream-hash-by-subset`). If absent, the key selects an endpoint on the pool's
    /// ring.
    pub subset: Option<NonZeroU32>,
}
