//! The connections of a worker to one endpoint, and the requests that wait for one.
//!
//! Many requests may arrive while there is no connection. The first one opens a connection, and as
//! many others wait for it as it will be able to carry. The endpoint declares that number in its
//! SETTINGS; before these arrive, a connection carries one request.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::io::failure::FailureKind;

/// Maximum number of concurrent requests per connection, if the endpoint allows as many.
pub(super) const STREAMS: usize = 100;

/// State shared by the waiting requests.
#[derive(Debug)]
pub(in crate::upstream) struct ConnectionGroup {
    /// Number of connections that are being opened or still lack the endpoint's SETTINGS.
    coming: AtomicUsize,
    waiting: AtomicUsize,
    /// Last known number of concurrent requests per connection to this endpoint.
    each: AtomicUsize,
    /// Number of failed connections, and the reason of the last failure.
    failed: Mutex<(u64, FailureKind)>,
    changed: Notify,
}

/// A connection that is being opened.
#[derive(Debug)]
pub(in crate::upstream) struct Coming(Arc<ConnectionGroup>);

/// A request that waits for a connection.
#[derive(Debug)]
pub(in crate::upstream) struct Waiting(Arc<ConnectionGroup>);

impl Default for ConnectionGroup {
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

impl ConnectionGroup {
    /// Registers a connection that is being opened.
    pub(in crate::upstream) fn coming(self: &Arc<Self>) -> Coming {
        self.coming.fetch_add(1, Relaxed);
        Coming(self.clone())
    }

    /// Registers a request that waits for a connection.
    pub(in crate::upstream) fn wait(self: &Arc<Self>) -> Waiting {
        self.waiting.fetch_add(1, Relaxed);
        Waiting(self.clone())
    }

    /// Returns whether more requests wait than the pending connections will carry.
    pub(in crate::upstream) fn lacks_connections(&self) -> bool {
        let room = self.coming.load(Relaxed).saturating_mul(self.each.load(Relaxed));
        self.waiting.load(Relaxed) > room
    }

    /// Records the failure of a connection. It ends the wait of all waiting requests.
    pub(in crate::upstream) fn fail(&self, kind: FailureKind) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = (failed.0 + 1, kind);
    }

    /// Returns the number of failures and the reason of the last one.
    pub(in crate::upstream) fn failures(&self) -> (u64, FailureKind) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a future that completes at the next change. Must be called before the state is
    /// checked.
    pub(in crate::upstream) fn changed(&self) -> impl Future<Output = ()> {
        self.changed.notified()
    }
}

impl Coming {
    /// Records that the connection is established and carries `streams` concurrent requests.
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
