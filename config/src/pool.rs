//! Pools: an endpoint set together with how it is used.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::endpoint::EndpointSetKey;
use crate::health_check::HealthCheck;
use crate::template::Template;

/// Identity of a pool: the Service port and everything about the policy that makes pools differ. Equal
/// pools have equal keys, so that Ingresses which agree share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PoolKey {
    /// The endpoints, shared by all pools of the Service port.
    pub endpoints: EndpointSetKey,
    /// The policy in canonical text, such as `http,ewma`; made by translation only.
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
    /// What is spoken to the endpoints.
    pub protocol: UpstreamProtocol,
    /// How an endpoint is chosen where no session decides.
    pub balance: Balance,
    /// How long an endpoint that is new, or was ejected or failing, takes to get its whole share.
    pub slow_start: Option<Duration>,
    /// How its endpoints are checked; not at all without it.
    pub health_check: Option<Arc<HealthCheck>>,
}

/// What is spoken to an endpoint (ingress-nginx `backend-protocol`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum UpstreamProtocol {
    /// HTTP/1.1 without TLS.
    Http,
    /// HTTP/1.1 over TLS; the endpoint's certificate is not verified, as in ingress-nginx without
    /// `proxy-ssl-verify`, unless the rule says otherwise ([`UpstreamTls`](crate::UpstreamTls)).
    HttpsUnverified,
    /// HTTP/2 without TLS, from its first byte on, as gRPC has it.
    Grpc,
    /// HTTP/2 over TLS, not verified either.
    GrpcsUnverified,
}

impl UpstreamProtocol {
    /// Whether it is over TLS.
    pub const fn has_tls(self) -> bool {
        matches!(self, Self::HttpsUnverified | Self::GrpcsUnverified)
    }

    /// Whether it is HTTP/2.
    pub const fn is_http2(self) -> bool {
        matches!(self, Self::Grpc | Self::GrpcsUnverified)
    }
}

/// How an endpoint is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Balance {
    /// As the Tuning has it (`load-balance`).
    #[default]
    Inherit,
    /// Each in turn, over all clients together.
    RoundRobin,
    /// The one of two drawn ones that answers sooner, by a moving average of its response times and by the requests that
    /// it has.
    Ewma,
    /// The one with the fewest requests.
    LeastConnections,
    /// Each in turn for those without a key; keys go through a consistent-hash ring, which is built because
    /// of this.
    Ring,
}

/// Requests with the same key get the same endpoint (ingress-nginx `upstream-hash-by`). Those without a key are balanced
/// as any others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HashBy {
    /// What the key is made of.
    pub key: Template,
    /// The key chooses a group of so many endpoints, any of which may get the request (`upstream-hash-by-subset`). Without
    /// it the key chooses the endpoint, on the ring of the pool.
    pub subset: Option<NonZeroU32>,
}
