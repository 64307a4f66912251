//! The connections of a worker to one endpoint, and the requests that wait for one.
//!
//! Many requests may come while there is no connection. The first of them makes one, and as many others wait for it as
//! it is going to have room for. How many that are the endpoint says in its SETTINGS; before these have come, a
//! connection carries one.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::connection::STREAMS;
use crate::failure::FailureKind;

/// What is shared by those who wait.
#[derive(Debug)]
pub(super) struct Group {
    /// Connections on their way: being made, or without the endpoint's SETTINGS.
    coming: AtomicUsize,
    waiting: AtomicUsize,
    /// Requests that a connection of this endpoint carries at a time, as far as is known.
    each: AtomicUsize,
    /// How many connections could not be made, and why the last one.
    failed: Mutex<(u64, FailureKind)>,
    changed: Notify,
}

/// A connection on its way.
#[derive(Debug)]
pub(super) struct Coming(Arc<Group>);

/// A request that waits for a connection.
#[derive(Debug)]
pub(super) struct Waiting(Arc<Group>);

impl Default for Group {
    fn default() -> Self {
        Self {
            coming: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            each: AtomicUsize::new(STREAMS),
            failed: Mutex::new((0, FailureKind::Connect)),
            changed: Notify::new(),
        }
    }
}

impl Group {
    /// A connection is on its way.
    pub(super) fn coming(self: &Arc<Self>) -> Coming {
        self.coming.fetch_add(1, Relaxed);
        Coming(self.clone())
    }

    /// A request waits for a connection.
    pub(super) fn wait(self: &Arc<Self>) -> Waiting {
        self.waiting.fetch_add(1, Relaxed);
        Waiting(self.clone())
    }

    /// Whether more requests wait than there will be room for.
    pub(super) fn lacks_connections(&self) -> bool {
        let room = self.coming.load(Relaxed).saturating_mul(self.each.load(Relaxed));
        self.waiting.load(Relaxed) > room
    }

    /// A connection could not be made, as no other one could for now.
    pub(super) fn fail(&self, kind: FailureKind) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = (failed.0 + 1, kind);
    }

    /// How many could not be made, and why the last one.
    pub(super) fn failures(&self) -> (u64, FailureKind) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be had before what is waited for is looked at. Ready when that has changed.
    pub(super) fn changed(&self) -> impl Future<Output = ()> {
        self.changed.notified()
    }
}

impl Coming {
    /// It has come: the endpoint allows so many requests on it.
    pub(super) fn allows(self, streams: usize) {
        self.0.each.store(streams.max(1), Relaxed);
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.0.coming.fetch_sub(1, Relaxed);
        self.0.changed.notify_waiters();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}
