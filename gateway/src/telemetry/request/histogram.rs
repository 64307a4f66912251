//! Histograms as rows of atomics.
//!
//! There is one count for each bucket and one for what is above the last, none of them cumulative, and their total is
//! the number of observations: so an observation is one addition, and two with the sum. Prometheus' own histogram keeps
//! everything twice, to give a snapshot in which sum and counts agree to the last request; here a scrape may see the
//! count of a request whose sum comes with the next.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use prometheus::proto::{Bucket, Histogram};

/// The upper bounds of a histogram, rising, without the last, which is infinite.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bounds(Vec<f64>);

/// How many values were in which bucket.
#[derive(Debug)]
pub(super) struct Counts(Box<[AtomicU64]>);

/// Counts of times, and their sum.
#[derive(Debug)]
pub(super) struct Times {
    counts: Counts,
    /// In microseconds: in nanoseconds, ten thousand sockets that stay open would fill it in three weeks.
    sum: AtomicU64,
}

impl Bounds {
    pub(super) fn new(rising: Vec<f64>) -> Self {
        Self(rising)
    }
}

impl Counts {
    pub(super) fn new(bounds: &Bounds) -> Self {
        Self((0..=bounds.0.len()).map(|_| AtomicU64::new(0)).collect())
    }

    /// Counts a value. The bounds are those that it was made with, here and below.
    pub(super) fn add(&self, bounds: &Bounds, value: f64) {
        // There are about ten bounds, and most values are below the first few.
        let bucket = bounds.0.iter().position(|bound| value <= *bound).unwrap_or(bounds.0.len());
        self.0[bucket].fetch_add(1, Relaxed);
    }

    /// How many values there were.
    pub(super) fn total(&self) -> u64 {
        self.0.iter().map(|count| count.load(Relaxed)).sum()
    }

    /// As Prometheus has it.
    pub(super) fn collect(&self, bounds: &Bounds, sum: f64) -> Histogram {
        let mut total = 0;
        let mut buckets = Vec::with_capacity(bounds.0.len());
        for (count, bound) in self.0.iter().zip(&bounds.0) {
            total += count.load(Relaxed);
            let mut bucket = Bucket::default();
            bucket.set_cumulative_count(total);
            bucket.set_upper_bound(*bound);
            buckets.push(bucket);
        }
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets);
        histogram.set_sample_count(total + self.0[bounds.0.len()].load(Relaxed));
        histogram.set_sample_sum(sum);
        histogram
    }
}

impl Times {
    pub(super) fn new(bounds: &Bounds) -> Self {
        Self { counts: Counts::new(bounds), sum: AtomicU64::new(0) }
    }

    pub(super) fn add(&self, bounds: &Bounds, time: Duration) {
        self.counts.add(bounds, time.as_secs_f64());
        let part = u64::from(time.subsec_nanos() + 500) / 1000;
        self.sum.fetch_add(time.as_secs().saturating_mul(1_000_000).saturating_add(part), Relaxed);
    }

    pub(super) fn total(&self) -> u64 {
        self.counts.total()
    }

    /// As Prometheus has it, in seconds.
    pub(super) fn collect(&self, bounds: &Bounds) -> Histogram {
        self.counts.collect(bounds, self.sum.load(Relaxed) as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use prometheus::HistogramOpts;
    use prometheus::core::Metric;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_counts_as_the_library_does(
            bounds in proptest::collection::btree_set(0_u32..100, 1..12),
            values in proptest::collection::vec(0_u32..120, 0..50),
        ) {
            let bounds: Vec<f64> = bounds.into_iter().map(f64::from).collect();
            let opts = HistogramOpts::new("x", "x").buckets(bounds.clone());
            let library = prometheus::Histogram::with_opts(opts).unwrap();
            let bounds = Bounds::new(bounds);
            let ours = Counts::new(&bounds);
            for value in &values {
                library.observe(f64::from(*value));
                ours.add(&bounds, f64::from(*value));
            }
            let sum = values.iter().sum::<u32>();
            let metric = library.metric();
            prop_assert_eq!(&ours.collect(&bounds, f64::from(sum)), metric.get_histogram());
            prop_assert_eq!(ours.total(), values.len() as u64);
        }
    }

    #[test]
    fn times_are_summed_in_microseconds_and_a_bound_is_in_its_bucket() {
        let bounds = Bounds::new(vec![0.005, 0.01]);
        let times = Times::new(&bounds);
        times.add(&bounds, Duration::from_millis(5));
        times.add(&bounds, Duration::from_nanos(5_000_600));
        times.add(&bounds, Duration::from_secs(3));
        let histogram = times.collect(&bounds);
        let counts: Vec<u64> = histogram.get_bucket().iter().map(Bucket::cumulative_count).collect();
        assert_eq!(counts, [1, 2]);
        assert_eq!(histogram.get_sample_count(), 3);
        assert_eq!(histogram.get_sample_sum(), 3.010001);
    }
}
