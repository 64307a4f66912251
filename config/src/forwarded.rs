//! Trust in forwarding headers and the PROXY protocol, and the names of these headers.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::access::Network;

/// How the client's address is determined behind other proxies. [`Forwarded::default`] has the
/// defaults of ingress-nginx.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Forwarded {
    /// Accepts the `X-Forwarded-*` fields of trusted peers (`use-forwarded-headers`).
    pub use_headers: bool,
    /// Accepts them for the client's address only (`enable-real-ip`).
    pub real_ip: bool,
    /// Appends to `X-Forwarded-For` instead of replacing it (`compute-full-forwarded-for`).
    pub compute_full: bool,
    /// Requires a PROXY protocol header on each connection (`use-proxy-protocol`).
    pub proxy_protocol: bool,
    /// Time limit for that header (`proxy-protocol-header-timeout`).
    pub proxy_protocol_timeout: Duration,
    /// Trusted peers (`proxy-real-ip-cidr`).
    pub peers: TrustedPeers,
    /// Name of the field with the client's address (`forwarded-for-header`).
    pub for_header: Arc<str>,
    /// Name of the field that passes the source of the address to endpoints, if both the PROXY
    /// protocol and forwarding fields are accepted (`forwarded-for-proxy-protocol-header`).
    pub for_proxy_protocol_header: Arc<str>,
    /// Name of the field that endpoints get as `X-Original-Forwarded-Host`
    /// (`forwarded-host-header`).
    pub host_header: Arc<str>,
}

/// Peers whose forwarding headers are accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TrustedPeers {
    /// All peers.
    #[default]
    #[serde(rename = "Everybody")] // Name in snapshot files.
    Any,
    /// Peers in these networks. An empty list trusts none.
    These(Arc<[Network]>),
}

impl Default for Forwarded {
    fn default() -> Self {
        Self {
            use_headers: false,
            real_ip: false,
            compute_full: false,
            proxy_protocol: false,
            proxy_protocol_timeout: Duration::from_secs(5),
            peers: TrustedPeers::Any,
            for_header: "X-Forwarded-For".into(),
            for_proxy_protocol_header: "X-Forwarded-For-Proxy-Protocol".into(),
            host_header: "X-Forwarded-Host".into(),
        }
    }
}
