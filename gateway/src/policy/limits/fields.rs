//! `RateLimit-Policy` and `RateLimit`: the response fields that describe the limits of a client's
//! rates (draft-ietf-httpapi-ratelimit-headers-10).
//!
//! A leaky bucket has no window that ends at once. The fields describe it so that a client that
//! keeps to them is not refused: `q` and `w` are the rate, `r` is the number of requests that would
//! be served now, at most `q`, and after `t` seconds it is `q` again, or the size of a smaller
//! burst. Requests beyond `q` that the burst permits are not promised.

use std::fmt::Write;

use http::HeaderValue;

use super::{LimitShare, Rate};

const SECOND: u64 = 1_000_000_000;

/// The fields of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RateFields {
    /// `RateLimit-Policy`.
    pub(crate) policy: HeaderValue,
    /// `RateLimit`.
    pub(crate) state: HeaderValue,
}

/// A limit of a rate under its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamedRate {
    pub(super) name: &'static str,
    pub(super) rate: Rate,
    /// Requests per window.
    pub(super) requests: u32,
    /// The window in seconds.
    pub(super) window: u32,
}

/// Describes limits, each with the time by which the client is ahead of it, in nanoseconds. `None`
/// without limits. The numbers are those of the share of this replica.
pub(super) fn describe(
    limits: impl Iterator<Item = (NamedRate, u64)>,
    share: LimitShare,
) -> Option<RateFields> {
    let (mut policy, mut state) = (String::new(), String::new());
    for (limit, ahead) in limits {
        let Numbers { quota, window, left, reset } = limit.numbers(ahead, share);
        let (name, comma) = (limit.name, if policy.is_empty() { "" } else { ", " });
        // Writing to a string does not fail.
        let _ = write!(policy, "{comma}\"{name}\";q={quota};w={window}");
        let _ = write!(state, "{comma}\"{name}\";r={left};t={reset}");
    }
    if policy.is_empty() {
        return None;
    }
    let value = |text: String| HeaderValue::try_from(text).ok();
    Some(RateFields { policy: value(policy)?, state: value(state)? })
}

/// The parameters of a limit.
#[derive(Debug, PartialEq, Eq)]
struct Numbers {
    quota: u64,
    window: u64,
    left: u64,
    reset: u64,
}

impl NamedRate {
    fn numbers(self, ahead: u64, share: LimitShare) -> Numbers {
        let Rate { interval, early } = share.of_rate(self.rate);
        let interval = interval.max(1);
        let granted = share.of_quota(self.requests);
        // A share of less than one request per window is one request in a longer window.
        let (quota, window) = match granted {
            0 => (1, interval.div_ceil(SECOND)),
            _ => (granted, self.window.into()),
        };
        let most = quota.min(early / interval + 1);
        let left = early.checked_sub(ahead).map_or(0, |early| early / interval + 1).min(most);
        let restored = early.saturating_sub((most - 1).saturating_mul(interval));
        Numbers { quota, window, left, reset: ahead.saturating_sub(restored).div_ceil(SECOND) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limit(requests: u32, window: u32, burst: u32) -> NamedRate {
        let rate = Rate::new(requests, Duration::from_secs(window.into()), burst).unwrap();
        NamedRate { name: "rps", rate, requests, window }
    }

    fn numbers(limit: NamedRate, ahead: u64, share: LimitShare) -> [u64; 4] {
        let Numbers { quota, window, left, reset } = limit.numbers(ahead, share);
        [quota, window, left, reset]
    }

    #[test]
    fn what_is_left_is_what_would_be_served_up_to_the_quota() {
        let limit = limit(10, 1, 2);
        let at = |ahead| numbers(limit, ahead * SECOND / 10, LimitShare::ALONE);
        // 21 requests are served at once; the quota is 10.
        assert_eq!([at(0), at(11)], [[10, 1, 10, 0], [10, 1, 10, 0]]);
        assert_eq!([at(12), at(20)], [[10, 1, 9, 1], [10, 1, 1, 1]]);
        assert_eq!([at(21), at(22)], [[10, 1, 0, 1], [10, 1, 0, 2]]);
    }

    #[test]
    fn without_a_burst_one_request_is_left_at_most() {
        let limit = limit(2, 60, 0);
        assert_eq!(numbers(limit, 0, LimitShare::ALONE), [2, 60, 1, 0]);
        assert_eq!(numbers(limit, 30 * SECOND, LimitShare::ALONE), [2, 60, 0, 30]);
    }

    #[test]
    fn the_numbers_are_those_of_the_share() {
        let share = |heard| LimitShare { replicas: 3, heard };
        assert_eq!(numbers(limit(100, 1, 5), 0, share(3)), [100, 1, 100, 0]);
        assert_eq!(numbers(limit(100, 1, 5), 0, share(1)), [33, 1, 33, 0]);
        assert_eq!(numbers(limit(100, 1, 5), 0, share(2)), [66, 1, 66, 0]);
        assert_eq!(numbers(limit(2, 60, 5), 0, share(1)), [1, 90, 1, 0], "one in 90 seconds");
    }

    #[test]
    fn extreme_rates_do_not_overflow() {
        for (requests, burst) in [(u32::MAX, u32::MAX), (1, u32::MAX), (u32::MAX, 0)] {
            let Numbers { left, quota, .. } =
                limit(requests, 60, burst).numbers(u64::MAX, LimitShare { replicas: 9, heard: 0 });
            assert!(left == 0 && quota >= 1);
        }
    }

    #[test]
    fn several_limits_are_one_list() {
        let all = [(limit(10, 1, 5), 0), (NamedRate { name: "rpm", ..limit(60, 60, 5) }, 301 * SECOND)];
        let fields = describe(all.into_iter(), LimitShare::ALONE).unwrap();
        assert_eq!(fields.policy, "\"rps\";q=10;w=1, \"rpm\";q=60;w=60");
        assert_eq!(fields.state, "\"rps\";r=10;t=0, \"rpm\";r=0;t=60");
        assert_eq!(describe([].into_iter(), LimitShare::ALONE), None);
    }
}
