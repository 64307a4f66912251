//! How often something may happen, without a count that lasts for the life of a connection: a browser or a CDN keeps
//! one for days, and whatever is rare adds up to any number by then.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

/// A leaky bucket. What it holds is kept as the time at which it will be empty.
#[derive(Debug)]
pub(super) struct Rate {
    began: Instant,
    /// Microseconds after `began`.
    empty_at: AtomicU64,
    /// What the bucket holds.
    most: u32,
    /// How long one takes to leak.
    leak: Duration,
}

impl Rate {
    /// `most` at a time, and from then on one for each `leak`.
    pub(super) fn new(most: u32, leak: Duration) -> Self {
        Self { began: Instant::now(), empty_at: AtomicU64::new(0), most, leak }
    }

    /// Counts one.
    pub(super) fn count(&self) {
        self.count_at(Instant::now());
    }

    /// Takes one back.
    pub(super) fn forgive(&self) {
        let before = self.empty_at.load(Relaxed);
        if before > 0 {
            self.empty_at.store(before.saturating_sub(self.step()), Relaxed);
        }
    }

    /// Whether there were too many. Looks at the clock only if there was one at all.
    pub(super) fn is_exceeded(&self) -> bool {
        self.empty_at.load(Relaxed) > 0 && self.is_exceeded_at(Instant::now())
    }

    /// All changes come from the thread of the connection.
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
        let rate = Rate::new(5, LEAK);
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
    fn what_is_rare_never_adds_up() {
        let rate = Rate::new(5, LEAK);
        for count in 0..100_000 {
            let now = rate.began + count * LEAK;
            rate.count_at(now);
            assert!(!rate.is_exceeded_at(now), "{count}");
        }
    }

    #[test]
    fn what_was_forgiven_is_no_credit() {
        let rate = Rate::new(5, LEAK);
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
