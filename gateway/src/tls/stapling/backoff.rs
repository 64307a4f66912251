//! Intervals between attempts after failures.

use std::time::{Duration, Instant};

/// The first interval; it doubles up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(3600);

/// Consecutive failures, and when the next attempt is due.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    /// `None` while an attempt is under way.
    pub(super) retry: Option<Instant>,
}

impl Backoff {
    /// Records a failure. Returns whether it is the first one. Failures of attempts that began
    /// before the last failure do not count.
    pub(super) fn fail(&mut self, now: Instant) -> bool {
        if self.retry.is_none_or(|retry| retry <= now) {
            self.retry = Some(now + jittered(interval(self.failures)));
            self.failures = self.failures.saturating_add(1);
            return self.failures == 1;
        }
        false
    }
}

fn interval(failures: u32) -> Duration {
    (SHORTEST * 2_u32.pow(failures.min(10))).min(LONGEST)
}

/// Returns between seven eighths of a time and all of it, so that replicas and certificates that
/// started together do not ask together.
pub(super) fn jittered(time: Duration) -> Duration {
    time - time.mul_f64(fastrand::f64() / 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_double_up_to_an_hour_with_jitter() {
        let (mut backoff, mut now) = (Backoff::default(), Instant::now());
        for (attempt, seconds) in [60, 120, 240, 480, 960, 1920, 3600, 3600].into_iter().enumerate() {
            assert_eq!(backoff.fail(now), attempt == 0);
            let wait = backoff.retry.unwrap() - now;
            let longest = Duration::from_secs(seconds);
            assert!(wait <= longest && wait >= longest * 7 / 8, "{wait:?} of {longest:?}");
            assert!(!backoff.fail(now), "an attempt that began before");
            assert_eq!(backoff.retry, Some(now + wait));
            now += wait;
        }
        let drawn: Vec<Duration> = (0..8).map(|_| jittered(LONGEST)).collect();
        assert!(drawn.iter().any(|one| *one != drawn[0]), "{drawn:?}");
    }
}
