//! Where calls of the gateway's own go: authorisation services and mirrors.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::pool::{PoolKey, UpstreamProtocol};
use crate::template::Template;

/// The destination of a call of the gateway's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CallDestination {
    /// A host that is the same for all requests. The control plane resolves it.
    Fixed {
        /// Pool of the host.
        pool: PoolKey,
        /// `Host` field.
        host: Arc<str>,
        /// TLS server name, if the host is not an IP address.
        server_name: Option<Arc<str>>,
    },
    /// A host that each request determines. The data plane resolves it when it needs it.
    PerRequest {
        /// The host: a name or an IP address.
        host: Template,
        /// The port.
        port: u16,
        /// The protocol: HTTP, or HTTPS with unverified certificates.
        protocol: UpstreamProtocol,
    },
}
