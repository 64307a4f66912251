//! TLS towards the endpoints of a rule: ingress-nginx `proxy-ssl-*`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::resource::ResourceKey;
use crate::template::Template;

/// TLS settings for connections to endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UpstreamTls {
    /// Authorities and client certificate: a resource of kind `EndpointIdentity` or `EndpointTrust`
    /// (`proxy-ssl-secret`). The rule is closed while that resource is absent.
    pub identity: Option<ResourceKey>,
    /// Resource of the same kinds whose client certificate replaces that of `identity`.
    pub certificate: Option<ResourceKey>,
    /// Maximum number of intermediate certificates between the endpoint's certificate and the
    /// authority's (`proxy-ssl-verify`, `proxy-ssl-verify-depth`); `None` disables verification.
    pub verify_depth: Option<u32>,
    /// Required name of the endpoint's certificate (`proxy-ssl-name`); `None` is that of the
    /// Service, `service.namespace.svc`.
    pub name: Option<Arc<str>>,
    /// The same where requests determine it; it replaces `name`.
    pub name_per_request: Option<Template>,
    /// Whether the name is sent as SNI (`proxy-ssl-server-name`).
    pub sends_name: bool,
    /// Offered TLS versions (`proxy-ssl-protocols`), at least one.
    pub versions: TlsVersions,
    /// Offered TLS 1.2 cipher suites by number (`proxy-ssl-ciphers`); `None` offers all. TLS 1.3
    /// suites are always offered.
    pub ciphers: Option<Arc<[u16]>>,
}

/// Versions of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TlsVersions {
    /// TLS 1.2.
    pub v1_2: bool,
    /// TLS 1.3.
    pub v1_3: bool,
}

impl Default for UpstreamTls {
    fn default() -> Self {
        Self {
            identity: None,
            certificate: None,
            verify_depth: None,
            name: None,
            name_per_request: None,
            sends_name: false,
            versions: TlsVersions { v1_2: true, v1_3: true },
            ciphers: None,
        }
    }
}
