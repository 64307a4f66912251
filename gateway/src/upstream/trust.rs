//! The key that makes two connections to an address interchangeable. It must include everything
//! that trust depends on; otherwise a connection that was verified under one policy would be used
//! under another. The pools of both engines use this key.

use std::sync::Arc;

use sluice_config::UpstreamProtocol;

use crate::upstream::attempt::Upstream;

/// The protocol and trust settings of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TrustKey {
    /// The protocol. It determines whether certificates are verified.
    pub(crate) protocol: UpstreamProtocol,
    /// Server name for SNI and for the verification of the certificate.
    pub(crate) server_name: Option<Arc<str>>,
    /// ID of the TLS configuration. It changes whenever the TLS settings of the rule or its Secret
    /// change.
    pub(crate) tls_config: Option<u64>,
}

impl TrustKey {
    /// Returns the key of an attempt's connection.
    pub(crate) fn of(upstream: &Upstream) -> Self {
        Self {
            protocol: upstream.protocol,
            server_name: upstream.server_name.clone(),
            tls_config: upstream.tls.as_ref().map(|config| config.id),
        }
    }
}
