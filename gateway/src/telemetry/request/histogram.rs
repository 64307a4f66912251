//! Histograms as rows of atomics.
//!
//! A histogram has one count per bucket and one for values above the last bound. The counts are not
//! cumulative, and their sum is the number of observations, so an observation costs one addition,
//! or two with the sum of the values. Prometheus' own histogram stores everything twice to produce
//! snapshots in which sum and counts agree exactly; here, a scrape may include the count of a
//! request whose sum follows with the next scrape.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use prometheus::proto::{Bucket, Histogram};

use super::native::{NativeBuckets, NativeHistogram};

/// The ascending upper bounds of a histogram, without the last one, which is infinite.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bounds(Vec<f64>);

/// Number of values per bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts<'r>(&'r [AtomicU64]);

/// Counts of durations, and their sum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times<'r> {
    counts: Counts<'r>,
    /// Counts of the native histogram, if there are any.
    native: Option<(NativeBuckets, &'r [AtomicU64])>,
    /// In microseconds. In nanoseconds, ten thousand long-lived connections would overflow it in
    /// three weeks.
    sum: &'r AtomicU64,
}

/// The rest of a row of atomics that is being divided into parts.
pub(super) struct Row<'r>(&'r [AtomicU64]);

impl<'r> Row<'r> {
    pub(super) fn new(all: &'r [AtomicU64]) -> Self {
        Self(all)
    }

    /// Takes the next atomics as counts of a histogram with these bounds.
    pub(super) fn counts(&mut self, bounds: &Bounds) -> Counts<'r> {
        Counts(self.next(bounds.buckets()))
    }

    /// Takes the next atomic as a sum.
    pub(super) fn sum(&mut self) -> &'r AtomicU64 {
        &self.next(1)[0]
    }

    /// Takes the next atomics as counts and their sum.
    pub(super) fn times(&mut self, bounds: &Bounds, native: Option<NativeBuckets>) -> Times<'r> {
        Times {
            counts: self.counts(bounds),
            sum: self.sum(),
            native: native.map(|buckets| (buckets, self.next(buckets.len()))),
        }
    }

    fn next(&mut self, length: usize) -> &'r [AtomicU64] {
        let (next, rest) = self.0.split_at(length);
        self.0 = rest;
        next
    }
}

impl Bounds {
    pub(super) fn new(rising: Vec<f64>) -> Self {
        Self(rising)
    }

    /// Returns the bounds.
    pub(super) fn rising(&self) -> &[f64] {
        &self.0
    }

    /// Returns the bucket of a value.
    pub(super) fn bucket(&self, value: f64) -> usize {
        // There are about ten bounds, and most values are below the first few.
        self.0.iter().position(|bound| value <= *bound).unwrap_or(self.0.len())
    }

    /// Returns the number of buckets, including the one without an upper bound.
    pub(super) fn buckets(&self) -> usize {
        self.0.len() + 1
    }
}

impl Counts<'_> {
    /// Counts a value. `bounds` must be those that the counts were created with, here and below.
    pub(super) fn add(&self, bounds: &Bounds, value: f64, add: impl Fn(&AtomicU64, u64)) {
        add(&self.0[bounds.bucket(value)], 1);
    }

    /// Returns the number of values per bucket.
    pub(super) fn read(&self) -> Box<[u64]> {
        self.0.iter().map(|count| count.load(Relaxed)).collect()
    }

    /// Returns the number of values.
    pub(super) fn total(&self) -> u64 {
        self.0.iter().map(|count| count.load(Relaxed)).sum()
    }

    /// Converts the counts into Prometheus' type.
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

impl Times<'_> {
    pub(super) fn add(&self, bounds: &Bounds, time: Duration, add: impl Fn(&AtomicU64, u64) + Copy) {
        let seconds = time.as_secs_f64();
        self.counts.add(bounds, seconds, add);
        if let Some((buckets, counts)) = self.native {
            add(&counts[buckets.place(seconds)], 1);
        }
        let part = u64::from(time.subsec_nanos() + 500) / 1000;
        add(self.sum, time.as_secs().saturating_mul(1_000_000).saturating_add(part));
    }

    pub(super) fn total(&self) -> u64 {
        self.counts.total()
    }

    /// Returns the number of values per bucket.
    pub(super) fn read(&self) -> Box<[u64]> {
        self.counts.read()
    }

    /// Returns the native histogram, if there is one.
    pub(super) fn native(&self) -> Option<NativeHistogram> {
        self.native.map(|(buckets, counts)| buckets.collect(counts))
    }

    /// Converts the counts into Prometheus' type, in seconds.
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

    fn plus(cell: &AtomicU64, more: u64) {
        cell.fetch_add(more, Relaxed);
    }

    fn row(length: usize) -> Vec<AtomicU64> {
        (0..length).map(|_| AtomicU64::new(0)).collect()
    }

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
            let row = row(bounds.buckets());
            let ours = Row::new(&row).counts(&bounds);
            for value in &values {
                library.observe(f64::from(*value));
                ours.add(&bounds, f64::from(*value), plus);
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
        let row = row(bounds.buckets() + 1);
        let times = Row::new(&row).times(&bounds, None);
        times.add(&bounds, Duration::from_millis(5), plus);
        times.add(&bounds, Duration::from_nanos(5_000_600), plus);
        times.add(&bounds, Duration::from_secs(3), plus);
        let histogram = times.collect(&bounds);
        let counts: Vec<u64> = histogram.get_bucket().iter().map(Bucket::cumulative_count).collect();
        assert_eq!(counts, [1, 2]);
        assert_eq!(histogram.get_sample_count(), 3);
        assert_eq!(histogram.get_sample_sum(), 3.010001);
    }
}
