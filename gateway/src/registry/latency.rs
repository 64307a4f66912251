//! How soon an endpoint answers: a peak-sensitive moving average, as in Finagle's load balancer, from which ingress-nginx
//! has its `ewma`.
//!
//! A response that takes longer than the average becomes the average at once; a shorter one pulls it down with a time
//! constant of ten seconds. Without responses it fades in the same way, so that an endpoint that was slow once is tried
//! again. All of it is one word of the endpoint, so that it stays with it through changes of its set.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::endpoint::millis;

/// After this time the past counts for a third.
const DECAY: Duration = Duration::from_secs(10);

/// The average in microseconds (an `f32`, the upper half) and the millisecond of the last response (the lower half, which
/// wraps after 49 days). 0 before the first response.
#[derive(Debug, Default)]
pub(super) struct Latency(AtomicU64);

impl Latency {
    /// A response took this long.
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
        // Never fails: there is always a next word.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// Microseconds that a response takes, at least 1; `None` before the first.
    pub(super) fn micros(&self, now: Instant) -> Option<f32> {
        faded(self.0.load(Ordering::Relaxed), now).map(|(average, weight)| (average * weight).max(1.0))
    }
}

/// The average of a word, and how much of it is left.
fn faded(word: u64, now: Instant) -> Option<(f32, f32)> {
    if word == 0 {
        return None;
    }
    // Of two threads the later one may have looked at its clock earlier.
    let elapsed = (clock(now).wrapping_sub(word as u32) as i32).max(0);
    let weight = (-(elapsed as f32) / DECAY.as_millis() as f32).exp();
    Some((f32::from_bits((word >> 32) as u32), weight))
}

/// Milliseconds, wrapping.
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
