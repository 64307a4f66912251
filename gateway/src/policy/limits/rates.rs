//! Due time of the next request of each client. A single number represents a leaky bucket (the
//! generic cell rate algorithm).
//!
//! A client that was idle for long enough is equivalent to a new one, so its slot can be reused
//! without loss. If all eight slots of a set belong to recently active clients, the slot whose
//! client is closest to that state is reused. A table holds 262,144 clients in 4 MiB.
//!
//! While there are other replicas, the use of each client is also collected for them.
//!
//! Tag and time are two words without a common lock. A request that coincides with the reuse of a
//! slot is counted for the client before or after it: an error of one request, once.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::Rate;
use super::outbox::Outbox;
use super::set::{self, ROUNDS, SETS, WAYS};
use super::sharing::LimitShare;

/// Nanoseconds since the creation of the table.
type Time = u64;

/// A table of clients.
#[derive(Debug)]
pub(super) struct Rates {
    sets: Box<[Set]>,
    /// Exists once there were other replicas.
    outbox: OnceLock<Outbox>,
}

/// The use of one client, as replicas report it to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientUse {
    /// The tag of the client.
    pub(crate) client: u64,
    /// Time by which its requests have advanced the due time of the next one, in nanoseconds, at
    /// the full limit.
    pub(crate) time: u64,
}

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
    /// What other replicas are sent of it; 0 without others.
    reported: Time,
    /// How much earlier than its due time the request came.
    pub(super) early: Time,
}

impl Default for Rates {
    fn default() -> Self {
        Self { sets: (0..SETS).map(|_| Set::default()).collect(), outbox: OnceLock::new() }
    }
}

impl Rates {
    /// Counts a request. Returns `None` if it comes too early; it is not counted then.
    pub(super) fn charge(&self, key: u64, now: Time, rate: Rate, share: LimitShare) -> Option<Charge> {
        let (at, tag) = (set::of(key), key | 1);
        let set = &self.sets[at];
        let full = rate.interval;
        let rate = share.of_rate(rate);
        let charge = |way, early| {
            let reported = if share.is_alone() { 0 } else { full };
            if reported > 0 {
                self.outbox.get_or_init(Outbox::default).add(slot(at, way), reported);
            }
            Charge { set: at, way, interval: rate.interval, reported, early }
        };
        for _ in 0..ROUNDS {
            if let Some(way) = set.way(tag) {
                let due = set.due[way].fetch_update(AcqRel, Acquire, |due| next(due, now, rate));
                return Some(charge(way, due.ok()?.saturating_sub(now)));
            }
            let (way, _) = set.most_idle()?;
            if self.replace(at, way, tag) {
                set.due[way].store(now.saturating_add(rate.interval), Release);
                return Some(charge(way, 0));
            }
        }
        // Not observed in practice. Fails closed: a request that cannot be counted is refused.
        None
    }

    /// Returns the time by which a client's next request is due later than now.
    pub(super) fn ahead(&self, key: u64, now: Time) -> Time {
        let set = &self.sets[set::of(key)];
        set.way(key | 1).map_or(0, |way| set.due[way].load(Acquire).saturating_sub(now))
    }

    /// Reverts a charge.
    pub(super) fn refund(&self, Charge { set, way, interval, reported, .. }: Charge) {
        let earlier = |due: Time| Some(due.saturating_sub(interval));
        // Cannot fail: the closure always returns a value.
        let _ = self.sets[set].due[way].fetch_update(AcqRel, Acquire, earlier);
        if let Some(outbox) = self.outbox.get() {
            outbox.refund(slot(set, way), reported);
        }
    }

    /// Takes what other replicas have not been sent yet.
    pub(super) fn take_use(&self, mut each: impl FnMut(ClientUse)) {
        let Some(outbox) = self.outbox.get() else { return };
        outbox.take(|slot, time| {
            let client = self.sets[slot / WAYS].tags[slot % WAYS].load(Acquire);
            each(ClientUse { client, time });
        });
    }

    /// Adds the use of a client of another replica.
    pub(super) fn add_use(&self, ClientUse { client, time }: ClientUse, now: Time, share: LimitShare) {
        let (at, tag) = (set::of(client), client | 1);
        let set = &self.sets[at];
        let time = share.of_time(time);
        let later = |due: Time| due.max(now).saturating_add(time).min(now.saturating_add(Rate::MOST));
        for _ in 0..ROUNDS {
            if let Some(way) = set.way(tag) {
                // Cannot fail: the closure always returns a value.
                let _ = set.due[way].fetch_update(AcqRel, Acquire, |due| Some(later(due)));
                return;
            }
            // If all others have used more, they keep their slots.
            let Some((way, due)) = set.most_idle() else { return };
            if due >= later(0) {
                return;
            }
            if self.replace(at, way, tag) {
                return set.due[way].store(later(0), Release);
            }
        }
    }

    /// Gives a slot to another client, unless it has changed meanwhile.
    fn replace(&self, set: usize, way: usize, tag: u64) -> bool {
        let tags = &self.sets[set].tags[way];
        let is_replaced = tags.compare_exchange(tags.load(Acquire), tag, AcqRel, Relaxed).is_ok();
        if is_replaced && let Some(outbox) = self.outbox.get() {
            outbox.clear(slot(set, way));
        }
        is_replaced
    }
}

impl Set {
    fn way(&self, tag: u64) -> Option<usize> {
        self.tags.iter().position(|other| other.load(Acquire) == tag)
    }

    /// Returns the slot whose client is closest to being a new one, with its due time.
    fn most_idle(&self) -> Option<(usize, Time)> {
        self.due.iter().map(|due| due.load(Relaxed)).enumerate().min_by_key(|(_, due)| *due)
    }
}

/// Returns the number of a slot in the table.
fn slot(set: usize, way: usize) -> usize {
    set * WAYS + way
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
        assert_eq!(
            (0..9).filter(|_| rates.charge(greedy, now, RATE, LimitShare::ALONE).is_some()).count(),
            3
        );
        for client in 2..1000 {
            assert!(
                rates.charge(key(client), now, RATE, LimitShare::ALONE).is_some(),
                "a new client is served"
            );
        }
        assert!(
            rates.charge(greedy, now, RATE, LimitShare::ALONE).is_none(),
            "the one with the most debt has kept its place"
        );
        assert!(rates.charge(greedy, now + 100, RATE, LimitShare::ALONE).is_some());
    }

    #[test]
    fn threads_together_get_the_rate_of_one() {
        let rates = Rates::default();
        let admitted: usize = std::thread::scope(|scope| {
            let run =
                || (0..1000).filter(|_| rates.charge(7, 1000, RATE, LimitShare::ALONE).is_some()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        // Concurrent first requests of a client can claim two slots, so up to twice as many are
        // admitted, once.
        assert!((3..=6).contains(&admitted), "{admitted}");
    }

    /// Admits as many requests of a client as possible.
    fn admitted(rates: &Rates, client: u64, now: Time, share: LimitShare) -> usize {
        (0..100).filter(|_| rates.charge(client, now, RATE, share).is_some()).count()
    }

    fn taken(rates: &Rates) -> Vec<ClientUse> {
        let mut all = Vec::new();
        rates.take_use(|one| all.push(one));
        all
    }

    #[test]
    fn replicas_that_hear_each_other_grant_one_limit_together() {
        let share = LimitShare { replicas: 2, heard: 2 };
        let [one, other] = [(); 2].map(|()| Rates::default());
        let mut sum = 0;
        // Each is asked for more than the limit, and they hear each other every five intervals.
        for turn in 0..400 {
            let now = 1000 + turn * 100;
            sum += admitted(&one, 7, now, share) + admitted(&other, 7, now, share);
            if turn % 5 == 0 {
                let (of_one, of_other) = (taken(&one), taken(&other));
                of_one.into_iter().for_each(|use_| other.add_use(use_, now, share));
                of_other.into_iter().for_each(|use_| one.add_use(use_, now, share));
            }
        }
        assert!((395..=415).contains(&sum), "{sum} of 402");
    }

    #[test]
    fn a_replica_that_hears_no_other_grants_its_share() {
        let rates = Rates::default();
        let share = LimitShare { replicas: 4, heard: 1 };
        let sum: usize = (0..400).map(|turn| admitted(&rates, 7, 1000 + turn * 100, share)).sum();
        assert!((100..=102).contains(&sum), "{sum}");
        assert!(
            taken(&rates).iter().map(|use_| use_.time).sum::<u64>() == sum as u64 * 100,
            "at the full limit"
        );
    }

    #[test]
    fn nothing_is_collected_without_other_replicas() {
        let rates = Rates::default();
        admitted(&rates, 7, 1000, LimitShare::ALONE);
        assert_eq!(taken(&rates), []);
        assert!(rates.outbox.get().is_none());
    }

    #[test]
    fn the_use_of_a_refunded_request_is_not_reported() {
        let rates = Rates::default();
        let share = LimitShare { replicas: 2, heard: 2 };
        let charge = rates.charge(7, 1000, RATE, share).unwrap();
        rates.refund(charge);
        assert_eq!(taken(&rates), []);
    }

    #[test]
    fn the_use_of_another_replica_takes_no_slot_of_a_greedier_client() {
        let rates = Rates::default();
        let key = |client: u64| client << 16;
        for client in 1..=8 {
            assert_eq!(admitted(&rates, key(client), 1000, LimitShare::ALONE), 3);
        }
        rates.add_use(ClientUse { client: key(9), time: 1 }, 1000, LimitShare::ALONE);
        assert_eq!(admitted(&rates, key(1), 1000, LimitShare::ALONE), 0, "it has kept its slot");
        rates.add_use(ClientUse { client: key(9), time: 1000 }, 1000, LimitShare::ALONE);
        assert_eq!(admitted(&rates, key(9), 1000, LimitShare::ALONE), 0);
    }
}
