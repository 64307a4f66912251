//! Fields of heads as one rule wants them for its backend and its clients: ingress-nginx `upstream-vhost`,
//! `connection-proxy-header` and `custom-headers`.

use serde::{Deserialize, Serialize};

use crate::resource::ResourceKey;
use crate::template::Template;

/// Fields of heads as one rule wants them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BackendHeaders {
    /// `Host` for the endpoint, in place of the client's (`upstream-vhost`).
    pub host: Option<Template>,
    /// `Connection` for the endpoint, in place of ours (`connection-proxy-header`).
    pub connection: Option<ConnectionHeader>,
    /// Fields of every response, a resource of kind `ResponseHeaders` (`custom-headers`). The rule is closed while there
    /// is none of that key.
    pub response: Option<ResourceKey>,
}

/// What `connection-proxy-header` may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConnectionHeader {
    /// `keep-alive`.
    KeepAlive,
    /// `close`: the connection to the endpoint carries this request alone.
    Close,
}
