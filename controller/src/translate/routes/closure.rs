//! Closed routes: their statuses, and closures of whole hosts.

use std::sync::Arc;

/// Status of the routes of an object that is rejected.
pub(crate) const REJECTED: u16 = 404;

/// Status of routes with a setting that is not available.
pub(crate) const UNABLE: u16 = 503;

/// A closure of routes of other objects on a host, because a setting for the whole host is not
/// available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostClosure {
    /// Reason, for messages.
    pub(crate) reason: Arc<str>,
    /// Whether it applies to the routes of its own namespace only.
    pub(crate) own_namespace_only: bool,
}
