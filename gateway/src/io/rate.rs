//! A limit on how often an event may happen. A rate and not a count over the life of a connection:
//! browsers and CDNs keep connections for days, in which even rare events add up to any number.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

/// A leaky bucket. Its level is stored as the time at which it will be empty.
#[derive(Debug)]
pub(crate) struct LeakyBucket {
    began: Instant,
    /// In microseconds after `began`.
    empty_at: AtomicU64,
    /// Capacity of the bucket.
    most: u32,
    /// Time in which one event leaks.
    leak: Duration,
}

impl LeakyBucket {
    /// Creates a limit of `most` events at a time, and then one per `leak`.
    pub(crate) fn new(most: u32, leak: Duration) -> Self {
        Self { began: Instant::now(), empty_at: AtomicU64::new(0), most, leak }
    }

    /// Counts one event.
    pub(crate) fn count(&self) {
        self.count_at(Instant::now());
    }

    /// Takes one event back.
    pub(crate) fn forgive(&self) {
        let before = self.empty_at.load(Relaxed);
        if before > 0 {
            self.empty_at.store(before.saturating_sub(self.step()), Relaxed);
        }
    }

    /// Returns whether the limit is exceeded. Reads the clock only after an event.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.empty_at.load(Relaxed) > 0 && self.is_exceeded_at(Instant::now())
    }

    /// Load and store suffice, because all changes are made by the thread of the connection.
    fn count_at(&self, now: Instant) {
        let since = self.since(now);
        self.empty_at.store(self.empty_at.load(Relaxed).max(since) + self.step(), Relaxed);
    }

    fn is_exceeded_at(&self, now: Instant) -> bool {
        let held = self.empty_at.load(Relaxed).saturating_sub(self.since(now));
        held >= u64::from(self.most) * self.step()
    }

    fn since(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.began).as_micros()).unwrap_or(u64::MAX / 2)
    }

    fn step(&self) -> u64 {
        u64::try_from(self.leak.as_micros()).unwrap_or(u64::MAX / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAK: Duration = Duration::from_millis(10);

    #[test]
    fn many_at_once_are_too_many() {
        let rate = LeakyBucket::new(5, LEAK);
        let now = rate.began;
        for _ in 0..4 {
            rate.count_at(now);
            assert!(!rate.is_exceeded_at(now));
        }
        rate.forgive();
        rate.count_at(now);
        assert!(!rate.is_exceeded_at(now));
        rate.count_at(now);
        assert!(rate.is_exceeded_at(now));
        assert!(!rate.is_exceeded_at(now + LEAK), "one has leaked");
    }

    #[test]
    fn rare_events_never_add_up() {
        let rate = LeakyBucket::new(5, LEAK);
        for count in 0..100_000 {
            let now = rate.began + count * LEAK;
            rate.count_at(now);
            assert!(!rate.is_exceeded_at(now), "{count}");
        }
    }

    #[test]
    fn forgiven_events_are_no_credit() {
        let rate = LeakyBucket::new(5, LEAK);
        let later = rate.began + 1000 * LEAK;
        for _ in 0..100 {
            rate.forgive();
        }
        for _ in 0..5 {
            rate.count_at(later);
        }
        assert!(rate.is_exceeded_at(later));
    }
}
