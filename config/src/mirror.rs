//! Mirroring of requests: ingress-nginx `mirror-target` and related annotations.

use serde::{Deserialize, Serialize};

use crate::call_destination::CallDestination;
use crate::template::Template;

/// The mirror of a rule. Responses and errors of the mirror never reach the client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mirror {
    /// Where copies go.
    pub to: CallDestination,
    /// `Host` field of the copy (`mirror-host`).
    pub host: Template,
    /// Path and query of the copy.
    pub target: Template,
    /// Whether the copy includes the body (`mirror-request-body`).
    pub body: bool,
}
