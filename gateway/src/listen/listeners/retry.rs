//! Schedule for binding a socket again after a failure.
//!
//! The kernel does not report when a port becomes free, so binding is retried: soon at first, then
//! every second without limit. An attempt costs three system calls.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(50);
const LAST: Duration = Duration::from_secs(1);

/// Failed attempts since the last change of the socket configuration.
#[derive(Debug, Default)]
pub(super) struct Retry {
    pause: Option<Duration>,
}

impl Retry {
    /// Returns when to make the next attempt, if this one `failed`.
    pub(super) fn next(&mut self, now: Instant, failed: bool) -> Option<Instant> {
        let pause = self.pause.map_or(FIRST, |pause| (pause * 2).min(LAST));
        self.pause = failed.then_some(pause);
        self.pause.map(|pause| now + pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_become_rarer_and_never_end() {
        let now = Instant::now();
        let mut retry = Retry::default();
        let pauses: Vec<u128> =
            (0..8).map(|_| retry.next(now, true).unwrap().duration_since(now).as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1000, 1000, 1000]);
        assert_eq!(retry.next(now, false), None);
        assert_eq!(retry.next(now, true), Some(now + FIRST), "another fault is another matter");
    }
}
