//! Header fields that a rule sets for its backend and its clients: ingress-nginx
//! `upstream-vhost`, `connection-proxy-header` and `custom-headers`.

use serde::{Deserialize, Serialize};

use crate::resource::ResourceKey;
use crate::template::Template;

/// Header fields that a rule sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BackendHeaders {
    /// `Host` sent to the endpoint in place of the client's (`upstream-vhost`).
    pub host: Option<Template>,
    /// `Connection` sent to the endpoint in place of the gateway's (`connection-proxy-header`).
    pub connection: Option<ConnectionHeader>,
    /// Fields added to every response: a resource of kind `ResponseHeaders` (`custom-headers`). The
    /// rule is closed while that resource is absent.
    pub response: Option<ResourceKey>,
}

/// The values of `connection-proxy-header`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConnectionHeader {
    /// `keep-alive`.
    KeepAlive,
    /// `close`: the connection to the endpoint carries this request alone.
    Close,
}
