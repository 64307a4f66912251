//! Whether traffic should be sent here: what `/healthz` says.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether traffic should be sent here.
#[derive(Debug, Default)]
pub struct Readiness {
    complete: AtomicBool,
    bound: AtomicBool,
    draining: AtomicBool,
}

impl Readiness {
    /// A complete configuration is in force.
    pub(crate) fn set_complete(&self) {
        self.complete.store(true, Relaxed);
    }

    /// Says whether all listeners are bound.
    pub fn set_bound(&self, bound: bool) {
        self.bound.store(bound, Relaxed);
    }

    /// The end has begun: no new traffic, please.
    pub fn set_draining(&self) {
        self.draining.store(true, Relaxed);
    }

    /// Whether a complete configuration has been applied.
    pub fn is_complete(&self) -> bool {
        self.complete.load(Relaxed)
    }

    /// Whether the end has begun.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// Whether requests can be served and should be sent.
    pub fn is_ready(&self) -> bool {
        self.is_complete() && self.bound.load(Relaxed) && !self.is_draining()
    }
}
