//! A histogram of latencies in a few kilobytes, with quantiles to three digits.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Maximum latency in microseconds. Longer ones are recorded as this.
const LONGEST: u64 = 600_000_000;

/// A histogram of latencies.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    /// Creates an empty histogram.
    pub fn new() -> Self {
        // `saturating_record` does not resize a histogram and records values out of range as the
        // shortest. It therefore has its whole range from the start.
        Self(Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are within those of the recorder"))
    }

    /// Records a latency.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    /// Returns the quantile for this share in milliseconds.
    pub fn quantile(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1e3
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_latencies_are_not_among_the_short_ones() {
        let mut latencies = Latencies::new();
        for milliseconds in 1..=100 {
            latencies.record(Duration::from_millis(milliseconds));
        }
        latencies.record(Duration::from_secs(3600));
        for (share, wanted) in [(0.5, 51.0), (0.98, 99.0), (1.0, 600_000.0)] {
            let quantile = latencies.quantile(share);
            assert!((quantile / wanted - 1.0).abs() < 1e-3, "{share}: {quantile}");
        }
    }
}
