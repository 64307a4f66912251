//! Replacement of error responses: ingress-nginx `custom-http-errors`, `default-backend` and
//! `disable-proxy-intercept-errors`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::name::ServiceRef;
use crate::pool::PoolKey;

/// Error page settings of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ErrorPages {
    /// Statuses whose responses are replaced; `None` is the GlobalSettings's list.
    pub statuses: Option<Arc<[u16]>>,
    /// Whether responses of endpoints are kept; `None` is the GlobalSettings's value.
    pub keeps_responses: Option<bool>,
    /// Backend for error pages, and for all requests while the rule has no endpoint. `None` is the
    /// program's default backend, which serves error pages only.
    pub backend: Option<ErrorBackend>,
}

/// The default backend of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ErrorBackend {
    /// The Service.
    pub service: ServiceRef,
    /// Its pool for error pages, with plain HTTP.
    pub pages: PoolKey,
    /// Its pool for requests while the rule has no endpoint, with the protocol of the rule.
    pub requests: PoolKey,
}

impl ErrorPages {
    /// Returns whether the rule sets nothing.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
