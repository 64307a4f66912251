//! Pools: an endpoint set together with how it is used.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::endpoint::EndpointSetKey;

/// Identity of a pool: the Service port and everything about the policy that makes pools differ. Equal
/// pools have equal keys, so that Ingresses which agree share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PoolKey {
    /// The endpoints, shared by all pools of the Service port.
    pub endpoints: EndpointSetKey,
    /// The policy in canonical text, such as `http,round-robin`; made by translation only.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Balance {
    /// Each in turn, over all clients together.
    RoundRobin,
    /// Each in turn for those without a key; keys go through a consistent-hash ring, which is built because
    /// of this.
    Ring,
}
