//! Whether traffic should be sent to this replica: the state behind `/healthz`.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The readiness of the process.
#[derive(Debug, Default)]
pub struct Readiness {
    complete: AtomicBool,
    bound: AtomicBool,
    draining: AtomicBool,
}

impl Readiness {
    /// Records that a complete configuration is in force.
    pub(crate) fn set_complete(&self) {
        self.complete.store(true, Relaxed);
    }

    /// Records whether all listeners are bound.
    pub fn set_bound(&self, bound: bool) {
        self.bound.store(bound, Relaxed);
    }

    /// Records that the shutdown has begun: no new traffic should be sent.
    pub fn set_draining(&self) {
        self.draining.store(true, Relaxed);
    }

    /// Returns whether a complete configuration has been applied.
    pub fn is_complete(&self) -> bool {
        self.complete.load(Relaxed)
    }

    /// Returns whether the shutdown has begun.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// Returns whether requests can be served and should be sent.
    pub fn is_ready(&self) -> bool {
        self.is_complete() && self.bound.load(Relaxed) && !self.is_draining()
    }
}
