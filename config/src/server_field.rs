//! What becomes of the field `Server` in responses (RFC 9110 §10.2.4).

use serde::{Deserialize, Serialize};

/// Which software a response may name. The default is Sluice alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerField {
    /// That of an endpoint is passed on.
    pub of_endpoints: bool,
    /// Responses without one get our own.
    pub own: bool,
}

impl Default for ServerField {
    fn default() -> Self {
        Self { of_endpoints: false, own: true }
    }
}
