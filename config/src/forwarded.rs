//! What is believed of what others say about a client, and which fields it is said in.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::access::Network;

/// Who a client is when there are proxies in front of us. [`Forwarded::default`] is ingress-nginx's default of each key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forwarded {
    /// Believe the `X-Forwarded-*` fields of trusted peers (`use-forwarded-headers`).
    pub use_headers: bool,
    /// Believe them about the client's address alone (`enable-real-ip`).
    pub real_ip: bool,
    /// Append to `X-Forwarded-For` in place of replacing it (`compute-full-forwarded-for`).
    pub compute_full: bool,
    /// Connections begin with a header of the PROXY protocol (`use-proxy-protocol`).
    pub proxy_protocol: bool,
    /// Time for that header (`proxy-protocol-header-timeout`).
    pub proxy_protocol_timeout: Duration,
    /// Who is trusted (`proxy-real-ip-cidr`).
    pub peers: TrustedPeers,
    /// The field that holds the client's address (`forwarded-for-header`): a field name.
    pub for_header: Arc<str>,
    /// The field that tells endpoints from which value the address was taken, where the PROXY protocol and fields are both
    /// believed (`forwarded-for-proxy-protocol-header`): a field name.
    pub for_proxy_protocol_header: Arc<str>,
    /// The field whose value endpoints get as `X-Original-Forwarded-Host` (`forwarded-host-header`): a field name.
    pub host_header: Arc<str>,
}

/// Which peers are trusted to say who their clients are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrustedPeers {
    /// All.
    #[default]
    Everybody,
    /// Those of these networks; of none, where there is none.
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
            peers: TrustedPeers::Everybody,
            for_header: "X-Forwarded-For".into(),
            for_proxy_protocol_header: "X-Forwarded-For-Proxy-Protocol".into(),
            host_header: "X-Forwarded-Host".into(),
        }
    }
}
