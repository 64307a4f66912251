//! This replica, as the tasks of the synchronisation see it.

use std::sync::Arc;

use crate::policy::limits::Limiter;
use crate::telemetry::LimitUse;

/// This replica.
#[derive(Clone)]
pub(super) struct OwnReplica {
    pub(super) limiter: Arc<Limiter>,
    pub(super) counts: LimitUse,
    /// Identifies this process.
    pub(super) instance: u64,
}
