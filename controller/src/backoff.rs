//! Waits between failed attempts: exponential, capped, and with jitter, so that gateways do not
//! retry in step.

use std::time::Duration;

/// The minimum and maximum wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    cap: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, cap: Duration) -> Self {
        Self { first, cap }
    }

    /// Returns the wait after `failures` consecutive failures: random, from half of
    /// [`Backoff::longest`] to all of it.
    pub(crate) fn wait(&self, failures: u32) -> Duration {
        self.longest(failures).mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Returns the maximum wait.
    #[cfg(test)]
    pub(crate) const fn cap(&self) -> Duration {
        self.cap
    }

    /// Returns the maximum wait after `failures` consecutive failures.
    pub(crate) fn longest(&self, failures: u32) -> Duration {
        match failures {
            0 => Duration::ZERO,
            failures => self.first.saturating_mul(1 << (failures - 1).min(20)).min(self.cap),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_to_its_cap_with_jitter() {
        let backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        assert_eq!(backoff.wait(0), Duration::ZERO);
        for _ in 0..100 {
            assert!((25..=50).contains(&backoff.wait(1).as_millis()));
            assert!((100..=200).contains(&backoff.wait(3).as_millis()));
            for many in [7, 20, u32::MAX] {
                assert!((1000..=2000).contains(&backoff.wait(many).as_millis()));
            }
        }
        let first = backoff.wait(20);
        assert!((0..100).any(|_| backoff.wait(20) != first), "no jitter");
    }
}
