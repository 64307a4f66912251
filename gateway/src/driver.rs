//! Which engine carries requests to endpoints.

use sluice_config::UpstreamProtocol;

/// The operator's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// The direct engine where it speaks the endpoint's protocol, Pingora's `HttpProxy` elsewhere.
    #[default]
    Auto,
    /// `HttpProxy` for everything.
    Proxy,
    /// As `Auto`.
    Direct,
}

impl Driver {
    /// Whether the direct engine carries requests to endpoints of this protocol.
    pub(crate) fn is_direct(self, protocol: Option<UpstreamProtocol>) -> bool {
        self != Self::Proxy && !protocol.is_some_and(UpstreamProtocol::is_http2)
    }
}
