//! Graceful shutdown, without a lost request.
//!
//! ```text
//! Serving ──begin──▶ Draining ──close──▶ Closing ──last connection ends──▶ ended
//! ```
//!
//! While draining, new connections are still accepted, because load balancers need time to notice; but every
//! answer makes its client open another connection (`Connection: close`, GOAWAY). Closing empties the accept
//! queue, closes the listening sockets and what is idle, and lets running requests and upgraded streams
//! finish.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use crate::connection::idle::{IdleConnections, IdleSlot};
use crate::process::per_worker::{Padded, PerWorker};

/// How long what is under way may still come when the program closes.
const LAST_CALL: Duration = Duration::from_secs(1);

/// Connections beyond the limit that are admitted while idle ones are being closed for them.
const BEYOND_LIMIT: usize = 64;

/// How far shutdown has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Normal operation.
    Serving = 0,
    /// Connections are accepted, and closed after their next answer.
    Draining = 1,
    /// No new connections; what is idle is closed.
    Closing = 2,
}

/// The phase, and the counts that show when it is over. Shared by all workers.
#[derive(Debug)]
pub struct Drain {
    /// Read all the time, so nothing that is written is on its line.
    phase: Padded<AtomicU8>,
    changes: watch::Sender<Phase>,
    /// Connections and whatever may still accept some.
    holds: Padded<AtomicUsize>,
    connections: Padded<AtomicUsize>,
    idle: IdleConnections,
    requests: PerWorker<AtomicUsize>,
    released: Notify,
}

/// Keeps shutdown waiting.
#[derive(Debug)]
pub(crate) struct Hold(Arc<Drain>);

/// An open connection.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    hold: Hold,
    /// By which it can be closed while it is idle.
    pub(crate) idle: IdleSlot,
}

/// Whether a new connection is admitted.
#[derive(Debug)]
pub(crate) enum Admission {
    /// There were fewer than the limit.
    Free(OpenConnection),
    /// An idle connection is being closed for it.
    InPlaceOfIdle(OpenConnection),
    /// The limit is reached, and every connection has a request in progress.
    Refused,
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct OpenRequest(Arc<Padded<AtomicUsize>>);

/// One worker's view: wakes its connections at a new phase without a lock that workers share.
#[derive(Debug)]
pub(crate) struct LocalDrain {
    drain: Arc<Drain>,
    changed: Notify,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            phase: Padded::new(AtomicU8::new(Phase::Serving as u8)),
            changes: watch::Sender::new(Phase::Serving),
            holds: Padded::default(),
            connections: Padded::default(),
            idle: IdleConnections::default(),
            requests: PerWorker::default(),
            released: Notify::new(),
        }
    }
}

impl Drain {
    /// Normal operation.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The phase now.
    pub fn phase(&self) -> Phase {
        match self.phase.load(SeqCst) {
            0 => Phase::Serving,
            1 => Phase::Draining,
            _ => Phase::Closing,
        }
    }

    /// From now on every answer ends its connection. New connections are still taken.
    pub fn begin(&self) {
        self.advance(Phase::Draining);
    }

    /// From now on no new connections are taken: the accept queues are emptied and the sockets closed, and
    /// idle connections too. Call [`Listeners::close`](crate::listen::Listeners::close) first, which lets
    /// go of the sockets.
    pub fn close(&self) {
        self.advance(Phase::Closing);
    }

    /// Waits until the last connection has ended after [`close`](Self::close), but no longer than `timeout`.
    /// Returns whether it has.
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

    /// Connections that are open, over all workers.
    pub fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }

    /// Requests under way, upgraded connections included.
    pub fn requests(&self) -> usize {
        self.requests.all().map(|requests| requests.load(Relaxed)).sum()
    }

    fn advance(&self, phase: Phase) {
        if self.phase.fetch_max(phase as u8, SeqCst) < phase as u8 {
            self.changes.send_replace(phase);
        }
    }

    /// Receives every change of the phase.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Phase> {
        self.changes.subscribe()
    }

    /// Keeps shutdown waiting until it is dropped.
    pub(crate) fn hold(self: &Arc<Self>) -> Hold {
        self.holds.fetch_add(1, SeqCst);
        Hold(self.clone())
    }

    /// A new connection, unless there are `limit` already and all have requests in progress; 0 is
    /// no limit. At the limit the oldest idle connection is closed for it.
    pub(crate) fn admit(self: &Arc<Self>, limit: usize) -> Admission {
        let open = self.connections.fetch_add(1, SeqCst);
        if limit == 0 || open < limit {
            return Admission::Free(self.open_connection());
        }
        if open - limit < BEYOND_LIMIT && self.idle.close_oldest() {
            return Admission::InPlaceOfIdle(self.open_connection());
        }
        self.connections.fetch_sub(1, SeqCst);
        Admission::Refused
    }

    fn open_connection(self: &Arc<Self>) -> OpenConnection {
        OpenConnection { hold: self.hold(), idle: self.idle.slot() }
    }

    /// A new request.
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

    /// The counts that all workers share.
    pub(crate) fn shared(&self) -> &Arc<Drain> {
        &self.drain
    }

    /// Wakes all connections that wait in [`reached`](Self::reached).
    pub(crate) fn notify(&self) {
        self.changed.notify_waiters();
    }

    /// Whether answers should end their connections.
    pub(crate) fn is_draining(&self) -> bool {
        self.drain.phase() >= Phase::Draining
    }

    /// Ready once a phase is reached. The caller keeps `waiter` from call to call: while the gateway serves it is registered
    /// once and not polled again, so that waiting for shutdown costs a busy connection nothing.
    /// Always to be polled by the same task.
    pub(crate) fn poll_reached<'d>(
        &'d self,
        cx: &mut Context<'_>,
        waiter: &mut Pin<&mut Option<Notified<'d>>>,
        phase: Phase,
    ) -> Poll<()> {
        loop {
            let now = self.drain.phase();
            if now >= phase {
                return Poll::Ready(());
            }
            let waits = match waiter.as_mut().as_pin_mut() {
                None => false,
                Some(_) if now == Phase::Serving => true,
                Some(changed) => changed.poll(cx).is_pending(),
            };
            if waits {
                return Poll::Pending;
            }
            waiter.set(Some(self.changed.notified()));
            if let Some(changed) = waiter.as_mut().as_pin_mut() {
                // Registers. What has changed in between is seen in the next round.
                let _ = changed.poll(cx);
            }
        }
    }

    /// Waits until what is under way has had a second since [`Phase::Closing`].
    pub(crate) async fn last_call(&self) {
        self.reached(Phase::Closing).await;
        sleep(LAST_CALL).await;
    }

    /// Waits for a phase.
    pub(crate) async fn reached(&self, phase: Phase) {
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
            Admission::Free(open) => {
                open.idle.end();
                Some(open)
            }
            Admission::InPlaceOfIdle(_) | Admission::Refused => None,
        };
        let one = admit(2).unwrap();
        let two = admit(2).unwrap();
        assert!(matches!(drain.admit(2), Admission::Refused), "the limit is reached");
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

    #[tokio::test]
    async fn phases_only_advance() {
        let drain = Drain::new();
        let mut changes = drain.subscribe();
        drain.begin();
        assert_eq!(*changes.borrow_and_update(), Phase::Draining);
        drain.close();
        drain.begin();
        assert_eq!(drain.phase(), Phase::Closing);
        assert_eq!(*changes.borrow_and_update(), Phase::Closing);
    }
}
