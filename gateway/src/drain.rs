//! The end of the program, and the way there.
//!
//! On SIGTERM health fails at once ([`Drain::begin`]): load balancers take a while to notice, so for
//! `--shutdown-grace-period` new connections are still taken, and every answer carries `Connection: close` or
//! GOAWAY. Then ([`Drain::close`]) each acceptor accepts what its queues still hold and drops its sockets, idle
//! connections are closed, and running requests and upgraded streams are finished. The end ([`Drain::ended`])
//! comes as soon as the last of them has ended, at the latest after `worker-shutdown-timeout`.
//!
//! What remains to be waited for is counted by guards, so that a task that panics or is dropped is not waited
//! for.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};

/// Where the program is in its life. Goes forward only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Sockets are bound and queue connections; nothing is accepted before the first complete state.
    Starting,
    /// Connections are accepted.
    Serving,
    /// Connections are accepted, and every one is told to end after the answer to its current request.
    Draining,
    /// Queues are emptied and sockets closed; idle connections are closed, running requests are finished.
    Closing,
    /// It is over; what still runs is cut off.
    Ended,
}

/// The life cycle, shared by everyone who takes part in it. Clones are handles to the same one.
#[derive(Clone)]
pub struct Drain(Arc<Shared>);

struct Shared {
    phase: watch::Sender<Phase>,
    /// Whether `phase` is `Draining` or later: asked with every answer, and reading `phase` takes a lock.
    draining: AtomicBool,
    acceptors: AtomicUsize,
    connections: AtomicUsize,
    /// Every running request holds a clone, so the reference count is the number of requests, at the price of
    /// no more atomic operations than a handle costs anyway.
    requests: Arc<()>,
    /// Told when `acceptors` or `connections` falls to zero.
    fell: Notify,
}

/// An acceptor that may still hold sockets. Dropped once its accept queues are drained and its sockets closed.
#[must_use = "the end does not wait for an acceptor without its guard"]
#[derive(Debug)]
pub struct AcceptorGuard(Drain);

/// An open client connection.
#[must_use = "the end does not wait for a connection without its guard"]
#[derive(Debug)]
pub struct ConnectionGuard(Drain);

/// A running request, or a stream that one was upgraded to.
#[must_use = "a request is counted for as long as its guard lives"]
#[derive(Debug)]
pub struct RequestGuard {
    _counted: Arc<()>,
}

impl Default for Drain {
    fn default() -> Self {
        Self::new()
    }
}

impl Drain {
    /// A life cycle in [`Phase::Starting`].
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            phase: watch::Sender::new(Phase::Starting),
            draining: AtomicBool::new(false),
            acceptors: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            requests: Arc::new(()),
            fell: Notify::new(),
        }))
    }

    /// Starts to accept. Does nothing once the end has begun.
    pub fn serve(&self) {
        self.advance(Phase::Serving);
    }

    /// Begins the end (SIGTERM): connections are still taken, but told not to stay.
    pub fn begin(&self) {
        self.advance(Phase::Draining);
    }

    /// Takes no more connections than are in the accept queues now, and closes idle ones. Whoever owns the
    /// listening sockets drops its own handles at the same moment, or the last acceptor would leave behind a
    /// queue that nobody empties.
    pub fn close(&self) {
        self.advance(Phase::Closing);
    }

    /// Waits, from the call on and after [`close`](Self::close), until all acceptors are done and no
    /// connection is open, but not longer than `timeout`. Then everything has ended. Returns false when
    /// connections were still open, which are now cut off.
    pub async fn ended(&self, timeout: Duration) -> bool {
        let quiet = tokio::time::timeout(timeout, self.quiet()).await.is_ok();
        self.advance(Phase::Ended);
        quiet
    }

    /// Where the program is. Not for the request path; see [`is_draining`](Self::is_draining).
    pub fn phase(&self) -> Phase {
        *self.0.phase.borrow()
    }

    /// Whether answers carry `Connection: close` or GOAWAY. Takes no lock.
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }

    /// A view of the phase that can be awaited again and again.
    pub fn subscribe(&self) -> watch::Receiver<Phase> {
        self.0.phase.subscribe()
    }

    /// Completes when this phase or a later one is reached.
    pub async fn reached(&self, phase: Phase) {
        // An error means that the sender is gone, and `self` holds it.
        let _ = self.subscribe().wait_for(|now| *now >= phase).await;
    }

    /// Registers an acceptor. Taken before the acceptor's task or thread is started, so that the end cannot
    /// overtake it, and dropped only after the guard of each connection it accepted has been taken.
    pub fn acceptor(&self) -> AcceptorGuard {
        self.0.acceptors.fetch_add(1, Ordering::Relaxed);
        AcceptorGuard(self.clone())
    }

    /// Registers a connection that was just accepted.
    pub fn connection(&self) -> ConnectionGuard {
        self.0.connections.fetch_add(1, Ordering::Relaxed);
        ConnectionGuard(self.clone())
    }

    /// Registers a request. It lives within a connection, which is what the end waits for.
    pub fn request(&self) -> RequestGuard {
        RequestGuard { _counted: self.0.requests.clone() }
    }

    /// Client connections that are open.
    pub fn open_connections(&self) -> usize {
        self.0.connections.load(Ordering::Relaxed)
    }

    /// Requests and upgraded streams that run.
    pub fn running_requests(&self) -> usize {
        Arc::strong_count(&self.0.requests) - 1
    }

    async fn quiet(&self) {
        self.reached(Phase::Closing).await;
        loop {
            let fell = self.0.fell.notified();
            tokio::pin!(fell);
            // Listens from here on, so that no fall between the look below and the wait is missed.
            fell.as_mut().enable();
            // Acceptors first: connections come from acceptors alone, so once those are none, the connections
            // that are seen after them can only become fewer. The guards release what this acquires.
            if self.0.acceptors.load(Ordering::Acquire) == 0
                && self.0.connections.load(Ordering::Acquire) == 0
            {
                return;
            }
            fell.await;
        }
    }

    fn advance(&self, phase: Phase) {
        self.0.phase.send_if_modified(|now| {
            let forward = phase > *now;
            if forward {
                *now = phase;
                if phase >= Phase::Draining {
                    self.0.draining.store(true, Ordering::Relaxed);
                }
            }
            forward
        });
    }

    fn leave(&self, count: &AtomicUsize) {
        if count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.fell.notify_waiters();
        }
    }
}

impl Drop for AcceptorGuard {
    fn drop(&mut self) {
        self.0.leave(&self.0.0.acceptors);
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.leave(&self.0.0.connections);
    }
}

impl fmt::Debug for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain")
            .field("phase", &self.phase())
            .field("connections", &self.open_connections())
            .field("requests", &self.running_requests())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::{JoinHandle, yield_now};

    use super::*;

    /// Far longer than any test runs: what returns before it was told, not timed out.
    const LONG: Duration = Duration::from_secs(3600);

    fn waiting(drain: &Drain) -> JoinHandle<bool> {
        let drain = drain.clone();
        tokio::spawn(async move { drain.ended(LONG).await })
    }

    /// Lets every other task of the single-threaded test runtime go as far as it can.
    async fn settle() {
        for _ in 0..8 {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn phases_go_forward_only_and_wake_who_waits() {
        let drain = Drain::new();
        assert_eq!(drain.phase(), Phase::Starting);
        let closing = tokio::spawn({
            let drain = drain.clone();
            async move { drain.reached(Phase::Closing).await }
        });
        drain.serve();
        assert_eq!(drain.phase(), Phase::Serving);
        assert!(!drain.is_draining());
        drain.begin();
        drain.serve();
        assert_eq!(drain.phase(), Phase::Draining);
        assert!(drain.is_draining());
        settle().await;
        assert!(!closing.is_finished());
        drain.close();
        drain.begin();
        assert_eq!(drain.phase(), Phase::Closing);
        closing.await.unwrap();
        drain.reached(Phase::Serving).await;
    }

    #[tokio::test]
    async fn a_signal_before_the_first_complete_state_ends_too() {
        let drain = Drain::new();
        drain.begin();
        drain.serve();
        assert_eq!(drain.phase(), Phase::Draining);
        drain.close();
        assert!(drain.ended(Duration::ZERO).await);
        assert_eq!(drain.phase(), Phase::Ended);
    }

    #[tokio::test]
    async fn the_end_waits_for_the_last_connection_and_no_longer() {
        let drain = Drain::new();
        drain.serve();
        let first = drain.connection();
        let second = drain.connection();
        assert_eq!(drain.open_connections(), 2);
        drain.begin();
        let ended = waiting(&drain);
        drain.close();
        drop(first);
        settle().await;
        assert!(!ended.is_finished());
        assert_eq!(drain.phase(), Phase::Closing);
        drop(second);
        assert!(ended.await.unwrap());
        assert_eq!(drain.phase(), Phase::Ended);
    }

    #[tokio::test]
    async fn the_end_waits_for_acceptors_and_for_what_they_accept_last() {
        let drain = Drain::new();
        let idle = drain.acceptor();
        let busy = drain.acceptor();
        drain.serve();
        drain.begin();
        drain.close();
        let ended = waiting(&drain);
        settle().await;
        drop(idle);
        settle().await;
        assert!(!ended.is_finished());
        let queued = drain.connection();
        drop(busy);
        settle().await;
        assert!(!ended.is_finished());
        drop(queued);
        assert!(ended.await.unwrap());
    }

    #[tokio::test]
    async fn an_idle_moment_before_closing_is_not_the_end() {
        let drain = Drain::new();
        drain.serve();
        drain.begin();
        let ended = waiting(&drain);
        settle().await;
        drop(drain.connection());
        settle().await;
        assert!(!ended.is_finished());
        drain.close();
        assert!(ended.await.unwrap());
    }

    #[tokio::test]
    async fn a_connection_that_stays_is_cut_off_after_the_timeout() {
        let drain = Drain::new();
        let stays = drain.connection();
        drain.close();
        assert!(!drain.ended(Duration::from_millis(1)).await);
        assert_eq!(drain.phase(), Phase::Ended);
        assert_eq!(drain.open_connections(), 1);
        drop(stays);
    }

    #[tokio::test]
    async fn a_task_that_panics_is_not_waited_for() {
        let drain = Drain::new();
        let guard = drain.connection();
        drain.close();
        let ended = waiting(&drain);
        let broken = tokio::spawn(async move {
            let _guard = guard;
            std::panic::resume_unwind(Box::new("as a bug would"));
        });
        assert!(broken.await.is_err());
        assert!(ended.await.unwrap());
    }

    #[test]
    fn requests_are_counted_while_they_run() {
        let drain = Drain::new();
        let requests = [drain.request(), drain.request()];
        assert_eq!(drain.running_requests(), 2);
        drop(requests);
        assert_eq!(drain.running_requests(), 0);
    }

    #[test]
    fn guards_of_many_threads_add_up() {
        let drain = Drain::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        drop((drain.connection(), drain.request()));
                    }
                });
            }
        });
        assert_eq!((drain.open_connections(), drain.running_requests()), (0, 0));
    }
}
