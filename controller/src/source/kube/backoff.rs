//! How long to wait before the next attempt. Capped low: an outage of the API must not be followed by half a minute
//! of old configuration, and a few watches with an attempt every two seconds are no load.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const CAP: Duration = Duration::from_secs(2);

/// The wait after so many failures in a row, from half of the full wait to all of it, so that many gateways do
/// not come at once.
pub(super) fn wait(failures: u32) -> Duration {
    if failures == 0 {
        return Duration::ZERO;
    }
    let full = FIRST.saturating_mul(1 << (failures - 1).min(10)).min(CAP);
    full.mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_to_two_seconds_with_jitter() {
        assert_eq!(wait(0), Duration::ZERO);
        for _ in 0..100 {
            assert!((25..=50).contains(&wait(1).as_millis()));
            assert!((100..=200).contains(&wait(3).as_millis()));
            for many in [7, 20, u32::MAX] {
                assert!((1000..=2000).contains(&wait(many).as_millis()));
            }
        }
        let first = wait(20);
        assert!((0..100).any(|_| wait(20) != first), "no jitter");
    }
}
