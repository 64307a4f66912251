//! Response time of an endpoint: a peak-sensitive moving average, as in Finagle's load balancer, on
//! which `ewma` of ingress-nginx is based.
//!
//! A response slower than the average becomes the average; a faster one lowers it with a time
//! constant of 10 seconds. Without responses it decays in the same way, so that a slow endpoint is
//! tried again. The state is one word of the endpoint, which survives changes of its set.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::clock::millis;

/// Time after which the past has a weight of 1/e, about a third.
const DECAY: Duration = Duration::from_secs(10);

/// Upper half: the average in microseconds as `f32`. Lower half: the millisecond of the last
/// response, which wraps after 49 days. 0 before the first response.
#[derive(Debug, Default)]
pub(super) struct Latency(AtomicU64);

impl Latency {
    /// Records the duration of a response.
    pub(super) fn observe(&self, took: Duration, now: Instant) {
        let took = (took.as_micros() as f32).max(1.0);
        let next = |word: u64| {
            let average = match faded(word, now) {
                None => took,
                Some((average, _)) if took >= average => took,
                Some((average, weight)) => average * weight + took * (1.0 - weight),
            };
            Some(u64::from(average.to_bits()) << 32 | u64::from(clock(now)))
        };
        // Never fails: the closure always returns a value.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// Returns the average in microseconds, at least 1, or `None` before the first response.
    pub(super) fn micros(&self, now: Instant) -> Option<f32> {
        faded(self.0.load(Ordering::Relaxed), now).map(|(average, weight)| (average * weight).max(1.0))
    }
}

/// Returns the average and its remaining weight.
fn faded(word: u64, now: Instant) -> Option<(f32, f32)> {
    if word == 0 {
        return None;
    }
    // The clocks of two threads may be read in another order than their updates happen.
    let elapsed = (clock(now).wrapping_sub(word as u32) as i32).max(0);
    let weight = (-(elapsed as f32) / DECAY.as_millis() as f32).exp();
    Some((f32::from_bits((word >> 32) as u32), weight))
}

/// Returns milliseconds, wrapping.
fn clock(at: Instant) -> u32 {
    millis(at) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_slow_response_counts_at_once_and_is_forgotten_slowly() {
        let (latency, start) = (Latency::default(), Instant::now());
        assert_eq!(latency.micros(start), None);
        latency.observe(ms(10), start);
        assert_eq!(latency.micros(start), Some(10_000.0));
        latency.observe(ms(200), start + ms(100));
        assert_eq!(latency.micros(start + ms(100)), Some(200_000.0));
        latency.observe(ms(10), start + ms(200));
        let soon = latency.micros(start + ms(200)).unwrap();
        assert!((195_000.0..200_000.0).contains(&soon), "{soon}");
        latency.observe(ms(10), start + ms(60_000));
        let later = latency.micros(start + ms(60_000)).unwrap();
        assert!((10_000.0..12_000.0).contains(&later), "{later}");
    }

    #[test]
    fn without_responses_it_fades_and_never_to_nothing() {
        let (latency, start) = (Latency::default(), Instant::now());
        latency.observe(ms(100), start);
        let after = latency.micros(start + DECAY).unwrap();
        assert!((36_000.0..37_500.0).contains(&after), "{after}");
        assert_eq!(latency.micros(start + DECAY * 100), Some(1.0));
    }

    #[test]
    fn a_clock_that_was_read_earlier_takes_nothing_away() {
        let (latency, start) = (Latency::default(), Instant::now());
        latency.observe(ms(50), start + ms(20));
        latency.observe(ms(10), start);
        assert_eq!(latency.micros(start), Some(50_000.0));
    }
}
