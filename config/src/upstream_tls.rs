//! TLS towards the endpoints of a rule: ingress-nginx `proxy-ssl-*`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::certificate::Certificate;
use crate::resource::{CaBundle, ResourceKey};

/// How the endpoints of a rule are trusted, and what they are shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UpstreamTls {
    /// Authorities and the gateway's own certificate, a resource of kind `EndpointIdentity` or `EndpointTrust`
    /// (`proxy-ssl-secret`). The rule is closed while there is none of that key.
    pub identity: Option<ResourceKey>,
    /// How many intermediate certificates there may be between an endpoint's and an authority's (`proxy-ssl-verify`,
    /// `proxy-ssl-verify-depth`); `None` verifies nothing.
    pub verify_depth: Option<u32>,
    /// The name that an endpoint's certificate has to be for (`proxy-ssl-name`); `None` is that of its Service,
    /// `service.namespace.svc`.
    pub name: Option<Arc<str>>,
    /// Whether the endpoint is told which name is wanted (`proxy-ssl-server-name`).
    pub sends_name: bool,
    /// Versions that are offered (`proxy-ssl-protocols`): at least one.
    pub versions: TlsVersions,
    /// Cipher suites of TLS 1.2 that are offered, by their numbers (`proxy-ssl-ciphers`); `None` is all there are. Those
    /// of TLS 1.3 always are.
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

/// What endpoints are trusted by, and what they are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointIdentity {
    /// Authorities of endpoints' certificates; may be none where nothing is verified.
    pub authorities: CaBundle,
    /// The gateway's own certificate.
    pub certificate: Option<Arc<Certificate>>,
}

impl Default for UpstreamTls {
    fn default() -> Self {
        Self {
            identity: None,
            verify_depth: None,
            name: None,
            sends_name: false,
            versions: TlsVersions { v1_2: true, v1_3: true },
            ciphers: None,
        }
    }
}
