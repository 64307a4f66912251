//! Settings of the `Server` response field (RFC 9110 §10.2.4).

use serde::{Deserialize, Serialize};

/// Sources of the `Server` field. The default sends Sluice's own value only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ServerField {
    /// Passes on the endpoint's value.
    pub of_endpoints: bool,
    /// Adds Sluice's own value to responses without one.
    pub own: bool,
}

impl Default for ServerField {
    fn default() -> Self {
        Self { of_endpoints: false, own: true }
    }
}
