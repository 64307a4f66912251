//! Results of DNS look-ups of external names.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

/// The state of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Addresses of the last successful look-up, sorted, without duplicates.
    pub addresses: Vec<IpAddr>,
    /// Error of the last look-up, if it failed.
    pub fault: Option<Arc<str>>,
}

/// A changed state of a name.
#[derive(Clone, Debug)]
pub struct LookedUp {
    /// The name.
    pub name: Arc<str>,
    /// New state.
    pub resolved: Resolved,
    /// End of the look-up.
    pub at: Instant,
}
