//! The connections of the webhook: how many there may be, how much their bodies may hold, and which
//! one is closed so that another client is served.
//!
//! A connection waits either for its client (handshake, request, next request) or for a verdict.
//! When there is no room, the connection that has waited longest for its client is closed, so
//! incomplete and slow requests delay no other client. A connection that waits for a verdict is
//! never closed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How long a connection may wait for its client before it can be closed in favour of another:
/// longer than an API server takes to send a review.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The open connections of the webhook.
pub(super) struct Connections {
    limits: Limits,
    table: Mutex<Table>,
    /// Wakes the accept loop, its only waiter.
    closed: Notify,
}

/// Limits for all connections together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Maximum number of connections.
    pub(super) connections: usize,
    /// Maximum number of bytes of all request bodies.
    pub(super) bytes: usize,
}

#[derive(Default)]
struct Table {
    open: BTreeMap<u64, Entry>,
    next: u64,
    bytes: usize,
}

struct Entry {
    /// Since when the connection waits for its client. `None` while it waits for a verdict or is
    /// being closed.
    waits_since: Option<Instant>,
    bytes: usize,
    evicted: Arc<Notify>,
}

/// The slot of one connection, released when dropped.
pub(super) struct ConnectionSlot {
    connections: Arc<Connections>,
    id: u64,
    evicted: Arc<Notify>,
}

impl Connections {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, table: Mutex::default(), closed: Notify::new() })
    }

    /// Returns a slot for a new connection as soon as there is one. Supports one caller at a time.
    pub(super) async fn admit(self: &Arc<Self>) -> ConnectionSlot {
        loop {
            let retry_at = {
                let mut table = self.table();
                if table.open.len() < self.limits.connections {
                    return self.open(&mut table);
                }
                match table.oldest_waiting(|_| true) {
                    Some((id, since)) if since.elapsed() >= TIMEOUT => {
                        table.evict(id);
                        None
                    }
                    Some((_, since)) => Some(since + TIMEOUT),
                    // All wait for verdicts or are being closed.
                    None => None,
                }
            };
            match retry_at {
                Some(at) => drop(timeout_at(at, self.closed.notified()).await),
                None => self.closed.notified().await,
            }
        }
    }

    fn open(self: &Arc<Self>, table: &mut Table) -> ConnectionSlot {
        let (id, evicted) = (table.next, Arc::new(Notify::new()));
        table.next += 1;
        let entry = Entry { waits_since: Some(Instant::now()), bytes: 0, evicted: evicted.clone() };
        table.open.insert(id, entry);
        ConnectionSlot { connections: self.clone(), id, evicted }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Returns the connection, among those that `suits` selects, that has waited longest for its
    /// client.
    fn oldest_waiting(&self, suits: impl Fn(&Entry) -> bool) -> Option<(u64, Instant)> {
        let waiting = self.open.iter().filter(|(_, entry)| suits(entry));
        let waiting = waiting.filter_map(|(id, entry)| Some((*id, entry.waits_since?)));
        waiting.min_by_key(|(_, since)| *since)
    }

    /// Signals the task of a connection to close it. The bytes of its body are about to be freed
    /// and no longer count.
    fn evict(&mut self, id: u64) {
        self.release(id);
        if let Some(entry) = self.open.get_mut(&id) {
            entry.waits_since = None;
            entry.evicted.notify_one();
        }
    }

    fn release(&mut self, id: u64) {
        if let Some(entry) = self.open.get_mut(&id) {
            self.bytes -= std::mem::take(&mut entry.bytes);
        }
    }
}

impl ConnectionSlot {
    /// Resolves when the connection must close in favour of another.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Marks the connection as waiting for its client.
    pub(super) fn waits_for_client(&self) {
        self.set_waiting(Some(Instant::now()));
    }

    /// Marks the connection as waiting for a verdict.
    pub(super) fn waits_for_verdict(&self) {
        self.set_waiting(None);
    }

    fn set_waiting(&self, since: Option<Instant>) {
        if let Some(entry) = self.connections.table().open.get_mut(&self.id) {
            entry.waits_since = since;
        }
    }

    /// Counts bytes of a request body. Returns whether they may be kept. Beyond the limit, slower
    /// connections with bodies are closed first.
    pub(super) fn hold(&self, bytes: usize) -> bool {
        let mut table = self.connections.table();
        while table.bytes + bytes > self.connections.limits.bytes {
            let own = &self.evicted;
            let suits = |entry: &Entry| entry.bytes > 0 && !Arc::ptr_eq(&entry.evicted, own);
            match table.oldest_waiting(suits) {
                Some((id, since)) if since.elapsed() >= TIMEOUT => table.evict(id),
                _ => return false,
            }
        }
        table.bytes += bytes;
        if let Some(entry) = table.open.get_mut(&self.id) {
            entry.bytes += bytes;
        }
        true
    }

    /// Releases the bytes of the request body, which was dropped.
    pub(super) fn release(&self) {
        self.connections.table().release(self.id);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        table.release(self.id);
        table.open.remove(&self.id);
        drop(table);
        self.connections.closed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn connections(connections: usize) -> Arc<Connections> {
        Connections::new(Limits { connections, bytes: 100 })
    }

    /// Returns whether a slot must close now.
    async fn is_evicted(slot: &ConnectionSlot) -> bool {
        tokio::time::timeout(Duration::ZERO, slot.evicted()).await.is_ok()
    }

    /// Admits a connection while an evicted slot closes, as its task would.
    async fn admit_beside(connections: &Arc<Connections>, slow: ConnectionSlot) -> ConnectionSlot {
        let (slot, ()) = tokio::join!(connections.admit(), async move {
            slow.evicted().await;
            drop(slow);
        });
        slot
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_waits_longest_for_its_client_gives_way() {
        let connections = connections(3);
        let first = connections.admit().await;
        advance(Duration::from_millis(10)).await;
        let second = connections.admit().await;
        advance(Duration::from_millis(10)).await;
        let third = connections.admit().await;
        first.waits_for_client();
        let _new = admit_beside(&connections, second).await;
        assert!(!is_evicted(&first).await && !is_evicted(&third).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_waits_for_a_verdict_is_never_closed_for_another() {
        let connections = connections(2);
        let (review, slow) = (connections.admit().await, connections.admit().await);
        review.waits_for_verdict();
        advance(TIMEOUT).await;
        slow.waits_for_client();
        let new = admit_beside(&connections, slow).await;
        new.waits_for_verdict();
        let more = tokio::time::timeout(TIMEOUT * 10, connections.admit()).await;
        assert!(more.is_err(), "there is no room until a verdict is given");
        assert!(!is_evicted(&review).await);
        drop(review);
        connections.admit().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_has_time_to_send_its_request_before_it_gives_way() {
        let connections = connections(1);
        let slow = connections.admit().await;
        let begun = Instant::now();
        let _new = admit_beside(&connections, slow).await;
        assert!(begun.elapsed() >= TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_do_not_come_give_their_memory_to_others() {
        let connections = connections(3);
        let (slow, quick) = (connections.admit().await, connections.admit().await);
        assert!(slow.hold(80));
        assert!(!quick.hold(30), "the other one has had no time yet");
        advance(TIMEOUT).await;
        assert!(quick.hold(30) && is_evicted(&slow).await);
        quick.waits_for_verdict();
        advance(TIMEOUT).await;
        let third = connections.admit().await;
        assert!(!third.hold(80), "a review under way keeps its body");
        quick.release();
        assert!(third.hold(80));
        drop((slow, quick, third));
        assert_eq!(connections.table().bytes, 0);
    }
}
