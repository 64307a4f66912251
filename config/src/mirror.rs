//! Copies of requests to another place: ingress-nginx `mirror-target` and its relatives.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::pool::PoolKey;
use crate::template::Template;

/// Where each request of a rule is copied to. What comes of the copy never reaches the client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mirror {
    /// Who gets it.
    pub pool: PoolKey,
    /// The name that is asked for in TLS, where it is no address.
    pub server_name: Option<Arc<str>>,
    /// Its `Host` field (`mirror-host`).
    pub host: Template,
    /// Its path and query.
    pub target: Template,
    /// Whether the body goes along (`mirror-request-body`).
    pub body: bool,
}
