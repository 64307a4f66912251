//! When a socket that could not be bound is tried next.
//!
//! Nobody says when a port becomes free, so it has to be tried. A try costs three system calls: soon at first, and
//! then each second for as long as it takes.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(50);
const LAST: Duration = Duration::from_secs(1);

/// Attempts since the configuration of sockets changed last.
#[derive(Debug, Default)]
pub(super) struct Retry {
    pause: Option<Duration>,
}

impl Retry {
    /// After an attempt: when to make the next one, if it `failed`.
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
