//! The order in which a worker starts accepted connections.
//!
//! A worker that keeps up starts connections in their order of arrival, a few per turn of its loop;
//! the rest stays in the kernel's queue. A worker is beyond its capacity if that queue has not been
//! empty for [`LATE`] and the connections in it have waited as long. In order of arrival, it would
//! then answer every client just before or after the client's timeout: all the work is done in
//! vain. The worker therefore accepts the whole queue into memory and starts the newest connection
//! first, and the kernel's queue is limited to [`QUEUE`] connections. Clients beyond that cost
//! nothing; TCP repeats their SYN. Older connections start once no newer ones wait, unless they
//! wait for more than [`STALE`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::bind::BACKLOG;

/// Connections that one worker starts per turn; few, so that requests do not wait for a long series
/// of TLS handshakes.
const TURN: u16 = 8;
/// Time after which a worker that has not caught up is beyond its capacity. A shorter delay is a
/// burst, and a queue that passes in less is normal load.
const LATE: Duration = Duration::from_millis(250);
/// The kernel's queue beyond capacity. It holds more connections than start in the time slice of a
/// CPU limit, so that the worker is not idle at its end, and few enough to start soon.
const QUEUE: u16 = 64;
/// Maximum wait of an accepted connection; longer than the timeout of most clients.
const STALE: Duration = Duration::from_secs(5);

/// Accepted connections that have not started, and how far behind the worker is.
#[derive(Debug)]
pub(super) struct Arrivals<C> {
    /// The oldest in front.
    waiting: VecDeque<(Instant, C)>,
    /// Connections to start per turn.
    turn: u16,
    /// When the worker fell behind.
    behind: Option<Instant>,
    /// The worker is beyond its capacity and has not caught up since.
    late: bool,
}

/// How one turn accepts and starts connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    now: Instant,
    /// The newest connection starts first. Otherwise each starts as it is accepted.
    pub(super) newest_first: bool,
    /// The first turn with the newest first.
    first: bool,
    turn: u16,
}

impl Order {
    /// Returns how many connections to accept: in the first turn the whole queue, to find the
    /// newest; later as many as start. Accepting a connection in vain costs a tenth of a TLS
    /// handshake.
    pub(super) fn accepts(self) -> u16 {
        if self.first { BACKLOG } else { self.turn }
    }

    /// Returns how many of the waiting connections to start.
    pub(super) fn begins(self) -> u16 {
        self.turn
    }
}

impl<C> Arrivals<C> {
    /// Creates an empty queue for a socket whose connections are spread over `workers`.
    pub(super) fn new(workers: usize) -> Self {
        let turn = u16::try_from(workers).unwrap_or(u16::MAX).saturating_mul(TURN).min(BACKLOG);
        Self { waiting: VecDeque::new(), turn, behind: None, late: false }
    }

    /// Returns whether the last turn left connections waiting.
    pub(super) fn is_behind(&self) -> bool {
        self.behind.is_some()
    }

    /// Begins a turn. `waited` returns how long its first connection was in the kernel's queue.
    pub(super) fn begin(&mut self, now: Instant, waited: impl FnOnce() -> Duration) -> Order {
        let behind = self.behind.is_some_and(|since| now.duration_since(since) >= LATE);
        let first = !self.late && behind && waited() >= LATE;
        self.late |= first;
        Order { now, newest_first: self.late, first, turn: self.turn }
    }

    /// Ends a turn. `emptied`: the kernel's queue is empty.
    pub(super) fn end(&mut self, order: Order, emptied: bool) {
        let caught_up = emptied && self.waiting.is_empty();
        self.behind = (!caught_up).then(|| self.behind.unwrap_or(order.now));
        self.late &= !caught_up;
    }

    /// Returns the backlog for the kernel after a turn.
    pub(super) fn backlog(&self) -> u16 {
        if self.late { QUEUE } else { BACKLOG }
    }

    /// Queues a connection.
    pub(super) fn push(&mut self, order: Order, connection: C) {
        self.waiting.push_back((order.now, connection));
    }

    /// Removes the newest connection.
    pub(super) fn newest(&mut self) -> Option<C> {
        self.waiting.pop_back().map(|(_, connection)| connection)
    }

    /// Removes the oldest connection, to make room.
    pub(super) fn oldest(&mut self) -> Option<C> {
        self.waiting.pop_front().map(|(_, connection)| connection)
    }

    /// Removes a connection that has waited for [`STALE`].
    pub(super) fn stale(&mut self, order: Order) -> Option<C> {
        let stale = |(since, _): &mut (Instant, C)| order.now.duration_since(*since) >= STALE;
        self.waiting.pop_front_if(stale).map(|(_, connection)| connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long() -> Duration {
        LATE
    }

    #[test]
    fn a_short_queue_is_served_in_order_of_arrival() {
        let mut arrivals = Arrivals::<u32>::new(1);
        let start = Instant::now();
        for turns in 0..100 {
            let order = arrivals.begin(start + turns * LATE, || LATE / 2);
            assert!(!order.newest_first, "a row of clients that is always as long is no overload");
            arrivals.end(order, false);
            assert_eq!(arrivals.backlog(), BACKLOG);
        }
    }

    #[test]
    fn a_worker_that_keeps_up_leaves_no_connection_waiting() {
        let mut arrivals = Arrivals::<u32>::new(1);
        let start = Instant::now();
        let order = arrivals.begin(start, long);
        assert!(!order.newest_first);
        arrivals.end(order, true);
        assert!(!arrivals.is_behind());
        // A burst that takes several turns.
        let order = arrivals.begin(start + STALE, long);
        arrivals.end(order, false);
        assert!(arrivals.is_behind());
        let order = arrivals.begin(start + STALE + LATE / 2, long);
        assert!(!order.newest_first);
        arrivals.end(order, true);
        assert!(!arrivals.is_behind());
    }

    #[test]
    fn beyond_capacity_the_newest_start_first_until_the_queue_is_empty() {
        let mut arrivals = Arrivals::new(1);
        let start = Instant::now();
        let order = arrivals.begin(start, long);
        arrivals.end(order, false);
        let order = arrivals.begin(start + LATE / 2, long);
        arrivals.end(order, false);
        let order = arrivals.begin(start + LATE, long);
        assert!(order.newest_first && order.accepts() > order.begins());
        for connection in 1..=3 {
            arrivals.push(order, connection);
        }
        assert_eq!(arrivals.newest(), Some(3));
        arrivals.end(order, true);
        assert!(arrivals.is_behind(), "two wait");
        assert_eq!(arrivals.backlog(), QUEUE);
        let order = arrivals.begin(start + 2 * LATE, || Duration::ZERO);
        assert!(order.newest_first);
        assert_eq!(
            order.accepts(),
            order.begins(),
            "what the kernel keeps is young, and costs nothing there"
        );
        arrivals.push(order, 4);
        assert_eq!([arrivals.newest(), arrivals.newest(), arrivals.newest()], [Some(4), Some(2), Some(1)]);
        arrivals.end(order, true);
        assert!(!arrivals.is_behind());
        assert_eq!(arrivals.backlog(), BACKLOG);
    }

    #[test]
    fn the_oldest_make_room_and_stale_connections_are_dropped() {
        let mut arrivals = Arrivals::new(1);
        let start = Instant::now();
        let order = arrivals.begin(start, long);
        arrivals.push(order, 1);
        let order = arrivals.begin(start, long);
        arrivals.push(order, 2);
        let order = arrivals.begin(start + LATE, long);
        arrivals.push(order, 3);
        assert_eq!(arrivals.oldest(), Some(1));
        let order = arrivals.begin(start + STALE / 2, long);
        assert_eq!(arrivals.stale(order), None);
        let late = arrivals.begin(start + STALE, long);
        assert_eq!([arrivals.stale(late), arrivals.stale(late)], [Some(2), None]);
        assert_eq!(arrivals.newest(), Some(3));
    }
}
