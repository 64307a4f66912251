//! How long a connection may wait for a request.

use std::time::{Duration, Instant};

use sluice_config::GlobalSettings;

use super::{EPOCH, IdleWait, WAIT_BITS, nanoseconds};

/// Time that a new connection has for its first request once shutdown closes connections.
pub(crate) const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);
/// Time that an idle connection has for its next request then: one may be in transit, or in the
/// kernel without the runtime having noticed.
const NEXT_REQUEST_GRACE: Duration = Duration::from_millis(100);

/// Interval between two looks at all connections, as a part of the shorter time limit.
const LOOKS_PER_LIMIT: u32 = 16;
/// Least interval.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);
/// Longest interval, by which a connection may wait longer than configured.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

/// Time limits of connections that wait for a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLimits {
    first_request: Duration,
    next_request: Duration,
    /// When they began to apply; they count from then for connections that were idle before.
    began: Option<Instant>,
}

impl WaitLimits {
    /// The limits of normal operation.
    pub(crate) fn of(settings: &GlobalSettings) -> Self {
        Self { first_request: settings.client_header_timeout, next_request: settings.keep_alive, began: None }
    }

    /// The limits once shutdown closes connections, which was at this time.
    pub(crate) fn of_closing(began: Instant) -> Self {
        Self { first_request: FIRST_REQUEST_GRACE, next_request: NEXT_REQUEST_GRACE, began: Some(began) }
    }

    /// Returns the time after which all connections are looked at again.
    pub(crate) fn interval(&self) -> Duration {
        // With `keep-alive: 0`, no connection waits for another request.
        let limits = [self.first_request, self.next_request].into_iter().filter(|limit| !limit.is_zero());
        let shorter = limits.min().unwrap_or(LONGEST_INTERVAL);
        (shorter / LOOKS_PER_LIMIT).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL)
    }

    /// Returns whether a connection with this state has waited too long.
    pub(super) fn are_over(&self, state: u64, now: Instant) -> bool {
        let limit = match state & (EPOCH - 1) {
            _ if state < EPOCH => return false,
            first if first == IdleWait::FirstRequest as u64 => self.first_request,
            next if next == IdleWait::NextRequest as u64 => self.next_request,
            _ => return false,
        };
        let since = (state >> WAIT_BITS).max(self.began.map_or(0, nanoseconds));
        Duration::from_nanos(nanoseconds(now).saturating_sub(since)) >= limit
    }
}

#[cfg(test)]
mod tests {
    use super::super::{IdleConnections, START, state};
    use super::*;

    fn at(seconds: u64) -> Instant {
        *START + Duration::from_secs(seconds)
    }

    const LIMITS: WaitLimits = WaitLimits {
        first_request: Duration::from_secs(60),
        next_request: Duration::from_secs(75),
        began: None,
    };

    #[test]
    fn each_wait_has_its_limit() {
        for (wait, limit) in [(IdleWait::FirstRequest, 60), (IdleWait::NextRequest, 75)] {
            let state = state(at(100), wait);
            assert!(!LIMITS.are_over(state, at(100 + limit - 1)) && LIMITS.are_over(state, at(100 + limit)));
        }
        assert!(!LIMITS.are_over(state(at(1), IdleWait::Other), at(10_000)));
        assert!((0..EPOCH).all(|state| !LIMITS.are_over(state, at(10_000))));
    }

    #[test]
    fn shutdown_gives_less_time_and_counts_it_from_its_beginning() {
        let closing = WaitLimits::of_closing(at(50));
        let next = state(at(1), IdleWait::NextRequest);
        assert!(!closing.are_over(next, at(50)) && closing.are_over(next, at(51)));
        let first = state(at(60), IdleWait::FirstRequest);
        assert!(!closing.are_over(first, at(60)) && closing.are_over(first, at(61)));
        assert_eq!(closing.interval(), SHORTEST_INTERVAL);
        assert_eq!(LIMITS.interval(), LONGEST_INTERVAL);
        let none = WaitLimits { next_request: Duration::ZERO, ..LIMITS };
        assert_eq!(
            none.interval(),
            LONGEST_INTERVAL,
            "without keep-alive, nothing waits for so short a time"
        );
    }

    #[test]
    fn only_connections_that_have_waited_too_long_are_closed() {
        let all = IdleConnections::default();
        let waits = [IdleWait::NextRequest, IdleWait::NextRequest, IdleWait::Other, IdleWait::NextRequest];
        let slots = waits.map(|wait| {
            let slot = all.slot();
            slot.wait(wait, at(100));
            slot
        });
        slots[1].wait(IdleWait::NextRequest, at(150));
        // The first bytes of a head have come, which has a time limit of its own.
        slots[3].begin(at(170));
        all.expire(&LIMITS, at(180));
        assert_eq!(slots.each_ref().map(|slot| slot.is_chosen()), [true, false, false, false]);
        slots[0].wait(IdleWait::NextRequest, at(190));
        assert!(slots[0].is_chosen(), "it is being closed");
    }
}
