//! Due time of the next request of each client. A single number represents a leaky bucket (the
//! generic cell rate algorithm).
//!
//! A client that was idle for long enough is equivalent to a new one, so its slot can be reused
//! without loss. If all eight slots of a set belong to recently active clients, the slot whose
//! client is closest to that state is reused. A table holds 262,144 clients in 4 MiB.
//!
//! Tag and time are two words without a common lock. A request that coincides with the reuse of a
//! slot is counted for the client before or after it: an error of one request, once.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::Rate;
use super::set::{self, ROUNDS, SETS, WAYS};

/// Nanoseconds since the creation of the table.
type Time = u64;

/// A table of clients.
#[derive(Debug)]
pub(super) struct Rates(Box<[Set]>);

/// Eight clients in two cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Set {
    /// Tags of the clients; 0 marks an unused slot.
    tags: [AtomicU64; WAYS],
    /// Due times of the next requests.
    due: [AtomicU64; WAYS],
}

/// A counted request, which can be refunded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charge {
    set: usize,
    way: usize,
    interval: Time,
    /// How much earlier than its due time the request came.
    pub(super) early: Time,
}

impl Default for Rates {
    fn default() -> Self {
        Self((0..SETS).map(|_| Set::default()).collect())
    }
}

impl Rates {
    /// Counts a request. Returns `None` if it comes too early; it is not counted then.
    pub(super) fn charge(&self, key: u64, now: Time, rate: Rate) -> Option<Charge> {
        let (at, tag) = (set::of(key), key | 1);
        let set = &self.0[at];
        for _ in 0..ROUNDS {
            if let Some(way) = set.tags.iter().position(|other| other.load(Acquire) == tag) {
                let due = set.due[way].fetch_update(AcqRel, Acquire, |due| next(due, now, rate));
                let early = due.ok()?.saturating_sub(now);
                return Some(Charge { set: at, way, interval: rate.interval, early });
            }
            let (way, _) =
                set.due.iter().map(|due| due.load(Relaxed)).enumerate().min_by_key(|(_, due)| *due)?;
            let before = set.tags[way].load(Acquire);
            if set.tags[way].compare_exchange(before, tag, AcqRel, Relaxed).is_ok() {
                set.due[way].store(now.saturating_add(rate.interval), Release);
                return Some(Charge { set: at, way, interval: rate.interval, early: 0 });
            }
        }
        // Not observed in practice. Fails closed: a request that cannot be counted is refused.
        None
    }

    /// Reverts a charge.
    pub(super) fn refund(&self, Charge { set, way, interval, .. }: Charge) {
        let earlier = |due: Time| Some(due.saturating_sub(interval));
        // Cannot fail: the closure always returns a value.
        let _ = self.0[set].due[way].fetch_update(AcqRel, Acquire, earlier);
    }
}

/// Returns the due time after this request; `None` if the request comes too early.
fn next(due: Time, now: Time, rate: Rate) -> Option<Time> {
    (due <= now.saturating_add(rate.early)).then(|| due.max(now).saturating_add(rate.interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { interval: 100, early: 200 };

    #[test]
    fn a_crowd_takes_no_more_memory_and_the_largest_debt_is_kept() {
        let rates = Rates::default();
        // All keys map to the same set.
        let key = |client: u64| client << 16;
        let (greedy, now) = (key(1), 1000);
        assert_eq!((0..9).filter(|_| rates.charge(greedy, now, RATE).is_some()).count(), 3);
        for client in 2..1000 {
            assert!(rates.charge(key(client), now, RATE).is_some(), "a new client is served");
        }
        assert!(rates.charge(greedy, now, RATE).is_none(), "the one with the most debt has kept its place");
        assert!(rates.charge(greedy, now + 100, RATE).is_some());
    }

    #[test]
    fn threads_together_get_the_rate_of_one() {
        let rates = Rates::default();
        let admitted: usize = std::thread::scope(|scope| {
            let run = || (0..1000).filter(|_| rates.charge(7, 1000, RATE).is_some()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        // Concurrent first requests of a client can claim two slots, so up to twice as many are
        // admitted, once.
        assert!((3..=6).contains(&admitted), "{admitted}");
    }
}
