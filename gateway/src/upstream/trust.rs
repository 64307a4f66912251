//! What makes two connections to an address exchangeable. Whatever concerns trust has to be part of it: with less, a
//! connection that was verified under one policy would be used under another. The pools of both engines are keyed by
//! this.

use std::sync::Arc;

use sluice_config::UpstreamProtocol;

use crate::upstream::attempt::Upstream;

/// How an endpoint is spoken to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TrustKey {
    /// The protocol, and with it whether its certificate is verified.
    pub(crate) protocol: UpstreamProtocol,
    /// The name that it is asked for, and that its certificate would have to be for.
    pub(crate) server_name: Option<Arc<str>>,
    /// The number of what its rule says about TLS, and its Secret: both are others under another number.
    pub(crate) session: Option<u64>,
}

impl TrustKey {
    pub(crate) fn of(upstream: &Upstream) -> Self {
        Self {
            protocol: upstream.protocol,
            server_name: upstream.server_name.clone(),
            session: upstream.tls.as_ref().map(|session| session.id),
        }
    }
}
