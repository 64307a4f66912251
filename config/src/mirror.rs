//! Mirroring of requests: ingress-nginx `mirror-target` and related annotations.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::pool::PoolKey;
use crate::template::Template;

/// The mirror of a rule. Responses and errors of the mirror never reach the client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mirror {
    /// Pool of the mirror.
    pub pool: PoolKey,
    /// TLS server name, if the host is not an IP address.
    pub server_name: Option<Arc<str>>,
    /// `Host` field of the copy (`mirror-host`).
    pub host: Template,
    /// Path and query of the copy.
    pub target: Template,
    /// Whether the copy includes the body (`mirror-request-body`).
    pub body: bool,
}
