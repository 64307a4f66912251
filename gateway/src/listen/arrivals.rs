//! In which order a worker begins what it accepts.
//!
//! While it keeps up, in the order in which connections came, a few in each turn of its loop; what is left stays in
//! the kernel's queue, where other workers find it. A worker that has not seen that queue empty for a while, and
//! finds connections in it that have waited as long, is beyond its capacity. First come, first served would then answer
//! each client when it is about to give up or just has: all the work is done, and hardly any of it is of use to anybody.
//! So all that the queue has gathered is taken out of it and waits here, and whoever came last begins first. From then on
//! the kernel is told to keep no more than can begin soon: those for whom there is no time cost nothing then, and try
//! again by themselves, as TCP does. Who came before that begins when the queue is empty.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::bind::BACKLOG;

/// Connections that each worker begins in one turn: few, for the sake of requests that wait beside a
/// row of TLS handshakes.
const TURN: u16 = 8;
/// A worker that has not caught up for so long is beyond its capacity, and not in the middle of a burst; one whose queue
/// takes less than that to pass is only busy.
const LATE: Duration = Duration::from_millis(250);
/// Connections that the kernel keeps beyond capacity: more than begin while a CPU limit lets a process run, so that it
/// does not stand still at the end of that, and few enough to begin soon.
const QUEUE: u16 = 64;
/// How long a connection may wait for its beginning: longer than most clients do.
const STALE: Duration = Duration::from_secs(5);

/// Connections that were accepted and have not begun, and how far behind their worker is.
#[derive(Debug)]
pub(super) struct Arrivals<C> {
    /// The oldest in front.
    waiting: VecDeque<(Instant, C)>,
    /// Connections that begin in one turn.
    turn: u16,
    /// Since when the worker has not caught up.
    behind: Option<Instant>,
    /// Whether it is beyond its capacity, until it has caught up.
    late: bool,
}

/// How a turn goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    now: Instant,
    /// Who came last begins first. Otherwise each begins as it is accepted.
    pub(super) newest_first: bool,
    /// It is the first turn that goes like that.
    first: bool,
    turn: u16,
}

impl Order {
    /// Connections to accept: all, to find the newest, and then as many as begin. An accept that comes to nothing is a
    /// tenth of a TLS handshake.
    pub(super) fn accepts(self) -> u16 {
        if self.first { BACKLOG } else { self.turn }
    }

    /// Connections to begin of those that wait.
    pub(super) fn begins(self) -> u16 {
        self.turn
    }
}

impl<C> Arrivals<C> {
    /// No connections, for `workers` that serve them.
    pub(super) fn new(workers: usize) -> Self {
        let turn = u16::try_from(workers).unwrap_or(u16::MAX).saturating_mul(TURN).min(BACKLOG);
        Self { waiting: VecDeque::new(), turn, behind: None, late: false }
    }

    /// Whether the last turn left something to do.
    pub(super) fn is_behind(&self) -> bool {
        self.behind.is_some()
    }

    /// Begins a turn. `waited` says how long the first connection of the turn was in the kernel's queue.
    pub(super) fn begin(&mut self, now: Instant, waited: impl FnOnce() -> Duration) -> Order {
        let behind = self.behind.is_some_and(|since| now.duration_since(since) >= LATE);
        let first = !self.late && behind && waited() >= LATE;
        self.late |= first;
        Order { now, newest_first: self.late, first, turn: self.turn }
    }

    /// Ends a turn; `emptied` says that nothing was left in the kernel.
    pub(super) fn end(&mut self, order: Order, emptied: bool) {
        let caught_up = emptied && self.waiting.is_empty();
        self.behind = (!caught_up).then(|| self.behind.unwrap_or(order.now));
        self.late &= !caught_up;
    }

    /// Connections that the kernel should keep after a turn.
    pub(super) fn backlog(&self) -> u16 {
        if self.late { QUEUE } else { BACKLOG }
    }

    /// Lets one wait.
    pub(super) fn push(&mut self, order: Order, connection: C) {
        self.waiting.push_back((order.now, connection));
    }

    /// The one that came last.
    pub(super) fn newest(&mut self) -> Option<C> {
        self.waiting.pop_back().map(|(_, connection)| connection)
    }

    /// The one that has waited longest, to make room.
    pub(super) fn oldest(&mut self) -> Option<C> {
        self.waiting.pop_front().map(|(_, connection)| connection)
    }

    /// One that has waited too long.
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
    fn a_queue_that_passes_in_less_than_it_takes_to_be_late_keeps_its_order() {
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
    fn who_keeps_up_lets_nobody_wait() {
        let mut arrivals = Arrivals::<u32>::new(1);
        let start = Instant::now();
        let order = arrivals.begin(start, long);
        assert!(!order.newest_first);
        arrivals.end(order, true);
        assert!(!arrivals.is_behind());
        // A burst that takes some turns.
        let order = arrivals.begin(start + STALE, long);
        arrivals.end(order, false);
        assert!(arrivals.is_behind());
        let order = arrivals.begin(start + STALE + LATE / 2, long);
        assert!(!order.newest_first);
        arrivals.end(order, true);
        assert!(!arrivals.is_behind());
    }

    #[test]
    fn beyond_capacity_the_newest_begin_until_nobody_waits() {
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
    fn the_oldest_make_room_and_nobody_waits_for_ever() {
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
