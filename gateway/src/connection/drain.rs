//! Graceful shutdown without lost requests.
//!
//! ```text
//! Serving ──begin──▶ Draining ──close──▶ Closing ──last connection ends──▶ ended
//! ```
//!
//! While draining, the gateway still accepts connections, because load balancers react with a
//! delay, but every response ends its connection (`Connection: close`, GOAWAY). Closing empties the
//! accept queues, closes the listening sockets and idle connections, and lets running requests and
//! upgraded streams finish.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use crate::connection::idle::expiry::WaitLimits;
use crate::connection::idle::{IdleConnections, IdleSlot};
use crate::process::per_worker::{Padded, PerWorker};

/// Time for bytes in flight to arrive once the gateway closes.
const LAST_CALL: Duration = Duration::from_secs(1);

/// Connections beyond the limit that are admitted while idle ones are being closed for them.
const BEYOND_LIMIT: usize = 64;

/// Progress of the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ShutdownPhase {
    /// Normal operation.
    Serving = 0,
    /// Connections are accepted, and closed after their next response.
    Draining = 1,
    /// No connections are accepted; idle ones are closed.
    Closing = 2,
}

/// The shutdown phase and the counts that determine its end. Shared by all workers.
#[derive(Debug)]
pub struct Drain {
    /// Read for every request, so it has a cache line without written data.
    phase: Padded<AtomicU8>,
    changes: watch::Sender<ShutdownPhase>,
    /// Open connections, and tasks that may still accept some.
    holds: Padded<AtomicUsize>,
    connections: Padded<AtomicUsize>,
    idle: IdleConnections,
    requests: PerWorker<AtomicUsize>,
    released: Notify,
}

/// Delays the end of the shutdown until it is dropped.
#[derive(Debug)]
pub(crate) struct Hold(Arc<Drain>);

/// An open connection.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    hold: Hold,
    /// Closes the connection while it is idle.
    pub(crate) idle: IdleSlot,
}

/// The decision about a new connection.
#[derive(Debug)]
pub(crate) enum ClientAdmission {
    /// The limit is not reached.
    Free(OpenConnection),
    /// An idle connection is being closed for it.
    InPlaceOfIdle(OpenConnection),
    /// The limit is reached, and every connection has a request in progress or too many are being
    /// closed.
    Refused,
}

/// A request in progress.
#[derive(Debug)]
pub(crate) struct OpenRequest(Arc<Padded<AtomicUsize>>);

/// One worker's view: wakes its connections at a new phase without a lock shared by workers.
#[derive(Debug)]
pub(crate) struct LocalDrain {
    drain: Arc<Drain>,
    changed: Notify,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            phase: Padded::new(AtomicU8::new(ShutdownPhase::Serving as u8)),
            changes: watch::Sender::new(ShutdownPhase::Serving),
            holds: Padded::default(),
            connections: Padded::default(),
            idle: IdleConnections::default(),
            requests: PerWorker::default(),
            released: Notify::new(),
        }
    }
}

impl Drain {
    /// Creates the state of normal operation.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns the current phase.
    pub fn phase(&self) -> ShutdownPhase {
        match self.phase.load(SeqCst) {
            0 => ShutdownPhase::Serving,
            1 => ShutdownPhase::Draining,
            _ => ShutdownPhase::Closing,
        }
    }

    /// Starts draining: every response ends its connection. New connections are still accepted.
    pub fn begin(&self) {
        self.advance(ShutdownPhase::Draining);
    }

    /// Starts closing: the accept queues are emptied, and sockets and idle connections closed. Call
    /// [`Listeners::close`](crate::listen::Listeners::close) first, which releases the sockets.
    pub fn close(&self) {
        self.advance(ShutdownPhase::Closing);
    }

    /// Waits until the last connection has ended after [`close`](Self::close), at most for
    /// `timeout`. Returns whether it has ended.
    pub async fn ended(&self, timeout: Duration) -> bool {
        let released = async {
            loop {
                let released = self.released.notified();
                if self.holds.load(SeqCst) == 0 {
                    return;
                }
                released.await;
            }
        };
        tokio::time::timeout(timeout, released).await.is_ok()
    }

    /// Returns the number of open connections of all workers.
    pub fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }

    /// Returns the number of requests in progress, upgraded connections included.
    pub fn requests(&self) -> usize {
        self.requests.all().map(|requests| requests.load(Relaxed)).sum()
    }

    fn advance(&self, phase: ShutdownPhase) {
        if self.phase.fetch_max(phase as u8, SeqCst) < phase as u8 {
            self.changes.send_replace(phase);
        }
    }

    /// Returns a receiver for changes of the phase.
    pub(crate) fn subscribe(&self) -> watch::Receiver<ShutdownPhase> {
        self.changes.subscribe()
    }

    /// Delays the end of the shutdown until the hold is dropped.
    pub(crate) fn hold(self: &Arc<Self>) -> Hold {
        self.holds.fetch_add(1, SeqCst);
        Hold(self.clone())
    }

    /// Admits a connection, unless `limit` connections are open and none of them can be closed for
    /// it; 0 is no limit. At the limit the oldest idle connection is closed.
    pub(crate) fn admit(self: &Arc<Self>, limit: usize) -> ClientAdmission {
        let open = self.connections.fetch_add(1, SeqCst);
        if limit == 0 || open < limit {
            return ClientAdmission::Free(self.open_connection());
        }
        if open - limit < BEYOND_LIMIT && self.idle.close_oldest() {
            return ClientAdmission::InPlaceOfIdle(self.open_connection());
        }
        self.connections.fetch_sub(1, SeqCst);
        ClientAdmission::Refused
    }

    /// Has idle connections closed while so many are open beyond `limit` (0 is none) that no new
    /// one would be admitted: the limit was lowered.
    pub(crate) fn close_excess(&self, limit: usize) {
        let excess = || self.connections().saturating_sub(limit);
        if limit > 0 && excess() >= BEYOND_LIMIT {
            self.idle.close(excess);
        }
    }

    fn open_connection(self: &Arc<Self>) -> OpenConnection {
        OpenConnection { hold: self.hold(), idle: self.idle.slot() }
    }

    /// Has the connections of this worker closed that have waited too long for a request.
    pub(crate) fn expire(&self, limits: &WaitLimits, now: Instant) {
        self.idle.expire(limits, now);
    }

    /// Counts a new request.
    pub(crate) fn request(&self) -> OpenRequest {
        let requests = self.requests.here();
        requests.fetch_add(1, Relaxed);
        OpenRequest(requests.clone())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.0.holds.fetch_sub(1, SeqCst) == 1 {
            self.0.released.notify_waiters();
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.hold.0.connections.fetch_sub(1, SeqCst);
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl LocalDrain {
    pub(crate) fn new(drain: Arc<Drain>) -> Self {
        Self { drain, changed: Notify::new() }
    }

    /// Returns the counts that all workers share.
    pub(crate) fn shared(&self) -> &Arc<Drain> {
        &self.drain
    }

    /// Wakes all connections that wait in [`reached`](Self::reached).
    pub(crate) fn notify(&self) {
        self.changed.notify_waiters();
    }

    /// Returns whether responses should end their connections.
    pub(crate) fn is_draining(&self) -> bool {
        self.drain.phase() >= ShutdownPhase::Draining
    }

    /// Ready once a phase is reached. The caller keeps `waiter` across calls: it is registered once
    /// and not polled again while the gateway serves, so waiting for shutdown costs a busy
    /// connection nothing. Must always be polled by the same task.
    pub(crate) fn poll_reached<'d>(
        &'d self,
        cx: &mut Context<'_>,
        waiter: &mut Pin<&mut Option<Notified<'d>>>,
        phase: ShutdownPhase,
    ) -> Poll<()> {
        loop {
            let now = self.drain.phase();
            if now >= phase {
                return Poll::Ready(());
            }
            let waits = match waiter.as_mut().as_pin_mut() {
                None => false,
                Some(_) if now == ShutdownPhase::Serving => true,
                Some(changed) => changed.poll(cx).is_pending(),
            };
            if waits {
                return Poll::Pending;
            }
            waiter.set(Some(self.changed.notified()));
            if let Some(changed) = waiter.as_mut().as_pin_mut() {
                // Registers the task. The next iteration sees a change that happened meanwhile.
                let _ = changed.poll(cx);
            }
        }
    }

    /// Waits until one second after the start of [`ShutdownPhase::Closing`], for bytes in flight.
    pub(crate) async fn wait_for_closing(&self) {
        self.reached(ShutdownPhase::Closing).await;
        sleep(LAST_CALL).await;
    }

    /// Waits until a phase is reached.
    pub(crate) async fn reached(&self, phase: ShutdownPhase) {
        loop {
            let changed = self.changed.notified();
            if self.drain.phase() >= phase {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_ends_with_the_last_connection() {
        let drain = Drain::new();
        let admit = |limit| match drain.admit(limit) {
            ClientAdmission::Free(open) => {
                open.idle.end();
                Some(open)
            }
            ClientAdmission::InPlaceOfIdle(_) | ClientAdmission::Refused => None,
        };
        let one = admit(2).unwrap();
        let two = admit(2).unwrap();
        assert!(matches!(drain.admit(2), ClientAdmission::Refused), "the limit is reached");
        let more = admit(0).unwrap();
        assert_eq!(drain.connections(), 3);
        drop((one, more));
        drain.close();
        assert!(!drain.ended(Duration::ZERO).await);
        let waiting = tokio::spawn({
            let drain = drain.clone();
            async move { drain.ended(Duration::from_secs(60)).await }
        });
        tokio::task::yield_now().await;
        drop(two);
        assert!(waiting.await.unwrap());
        assert_eq!(drain.connections(), 0);
    }

    #[test]
    fn a_lowered_limit_refused_new_clients_while_old_ones_were_idle() {
        const OLD: usize = 200;
        let drain = Drain::new();
        let open = |limit| match drain.admit(limit) {
            ClientAdmission::Free(open) | ClientAdmission::InPlaceOfIdle(open) => Some(open),
            ClientAdmission::Refused => None,
        };
        let mut old: Vec<_> = (0..OLD).map(|_| open(OLD).unwrap()).collect();
        old.iter().for_each(|open| open.idle.begin(Instant::now()));
        assert!(open(100).is_none());
        drain.close_excess(0);
        drain.close_excess(OLD);
        assert!(old.iter().all(|open| !open.idle.is_chosen()));
        drain.close_excess(100);
        old.retain(|open| !open.idle.is_chosen());
        assert_eq!(old.len(), 100);
        assert!(open(100).is_some());
    }

    /// Both look before the first connection has ended.
    #[test]
    fn two_workers_close_no_more_than_the_excess() {
        const OLD: usize = 300;
        let drain = Drain::new();
        let old: Vec<_> = (0..OLD).map(|_| drain.admit(OLD)).collect();
        let is_chosen = |admission: &ClientAdmission| match admission {
            ClientAdmission::Free(open) => open.idle.is_chosen(),
            ClientAdmission::InPlaceOfIdle(_) | ClientAdmission::Refused => {
                panic!("the limit was not reached")
            }
        };
        let chosen = || old.iter().filter(|admission| is_chosen(admission)).count();
        drain.close_excess(200);
        drain.close_excess(200);
        assert_eq!(chosen(), 100);
        drain.close_excess(180);
        assert_eq!(chosen(), 120, "those that are being closed already count");
    }

    #[tokio::test]
    async fn phases_only_advance() {
        let drain = Drain::new();
        let mut changes = drain.subscribe();
        drain.begin();
        assert_eq!(*changes.borrow_and_update(), ShutdownPhase::Draining);
        drain.close();
        drain.begin();
        assert_eq!(drain.phase(), ShutdownPhase::Closing);
        assert_eq!(*changes.borrow_and_update(), ShutdownPhase::Closing);
    }
}
