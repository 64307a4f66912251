//! How routes are closed.

use std::sync::Arc;

/// Status of the routes of an object that is rejected.
pub(crate) const REJECTED: u16 = 404;

/// Status of routes that ask for something which cannot be done.
pub(crate) const UNABLE: u16 = 503;

/// What an object closes on its hosts beside its own routes: it asks for something that holds for a whole host and
/// cannot be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostClosure {
    /// Why.
    pub(crate) reason: Arc<str>,
    /// Whether it closes the routes of its own namespace only.
    pub(crate) own_namespace_only: bool,
}
