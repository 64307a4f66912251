//! Native histograms of durations (Prometheus' exponential buckets).
//!
//! The upper bound of bucket `i` is 2^(i / 2^schema) seconds. A histogram has one count for each
//! bucket of a fixed range, beside its usual ones, and one for shorter times. Buckets are merged at
//! a scrape, if more of them are used than `--max-buckets` allows.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Upper bound of the zero bucket, as a power of two: 61 microseconds.
const SHORTEST: i32 = -14;
/// Upper bound of the last bucket, as a power of two: more than an hour. It also counts longer
/// times.
const LONGEST: i32 = 12;
/// The schema with the narrowest buckets: each is 9 % wider than the one before.
const FINEST: u8 = 3;

/// The buckets of all native histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NativeBuckets {
    /// The schema in which times are counted.
    stored: u8,
    /// The schema that `--bucket-factor` asks for, which may be coarser.
    shown: i32,
    /// Number of used buckets at a scrape (`--max-buckets`); 0 is no limit.
    most: usize,
}

/// The content of a native histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::telemetry) struct NativeHistogram {
    pub(in crate::telemetry) schema: i32,
    pub(in crate::telemetry) zero_count: u64,
    /// Used buckets in ascending order: index and count.
    pub(in crate::telemetry) buckets: Vec<(i32, u64)>,
}

/// Returns the upper bound of the zero bucket in seconds.
pub(in crate::telemetry) fn zero_threshold() -> f64 {
    f64::from(SHORTEST).exp2()
}

impl NativeBuckets {
    /// Returns the buckets that are at most `factor` times as wide as the ones before; `None` if
    /// native histograms are off (`--bucket-factor` up to 1).
    pub(super) fn new(factor: f64, most: usize) -> Option<Self> {
        if factor.is_nan() || factor <= 1.0 {
            return None;
        }
        // As in Prometheus' client library.
        let shown = (-factor.log2().log2().floor()).clamp(-4.0, f64::from(FINEST)) as i32;
        Some(Self { stored: u8::try_from(shown).unwrap_or(0), shown, most })
    }

    /// Returns the number of counts of a histogram, including that of the zero bucket.
    pub(super) fn len(self) -> usize {
        1 + (((LONGEST - SHORTEST) << self.stored) as usize)
    }

    /// Returns the place of a number of seconds among the counts.
    pub(super) fn place(self, seconds: f64) -> usize {
        if seconds.is_nan() || seconds <= zero_threshold() {
            return 0;
        }
        // seconds = fraction * 2^exponent, with a fraction from 1 to 2.
        const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;
        let bits = seconds.to_bits();
        let exponent = (bits >> FRACTION_BITS) as i32 - (f64::MAX_EXP - 1);
        let fraction = f64::from_bits(bits & ((1 << FRACTION_BITS) - 1) | 1.0_f64.to_bits());
        let step = 1 << (FINEST - self.stored);
        let within = BOUNDS.iter().step_by(step).filter(|bound| fraction > **bound).count() as i32;
        let index = (exponent << self.stored) + within;
        let first = SHORTEST << self.stored;
        ((index - first).max(1) as usize).min(self.len() - 1)
    }

    /// Reads the counts, in the schema that is to be shown or a coarser one.
    pub(super) fn collect(self, counts: &[AtomicU64]) -> NativeHistogram {
        let first = SHORTEST << self.stored;
        let used = counts.iter().enumerate().skip(1);
        let used = used.map(|(place, count)| (first + place as i32, count.load(Relaxed)));
        let mut histogram = NativeHistogram {
            schema: self.stored.into(),
            zero_count: counts[0].load(Relaxed),
            buckets: used.filter(|(_, count)| *count > 0).collect(),
        };
        while histogram.schema > self.shown
            || self.most > 0 && histogram.buckets.len() > self.most && histogram.schema > COARSEST
        {
            histogram.halve();
        }
        histogram
    }
}

/// The coarsest schema of Prometheus.
const COARSEST: i32 = -4;

/// Powers of two between 1 and 2, in the finest schema.
const BOUNDS: [f64; 1 << FINEST] = [
    1.0,
    1.090_507_732_665_257_7,
    1.189_207_115_002_721,
    1.296_839_554_651_009_6,
    std::f64::consts::SQRT_2,
    1.542_210_825_407_940_7,
    1.681_792_830_507_429,
    1.834_008_086_409_342_4,
];

impl NativeHistogram {
    /// Merges each two buckets.
    fn halve(&mut self) {
        self.schema -= 1;
        let mut merged: Vec<(i32, u64)> = Vec::with_capacity(self.buckets.len());
        for (index, count) in self.buckets.drain(..) {
            // The upper bound of bucket 2n - 1 is within bucket n, and that of 2n is the same.
            let index = (index + 1).div_euclid(2);
            match merged.last_mut() {
                Some((last, sum)) if *last == index => *sum += count,
                _ => merged.push((index, count)),
            }
        }
        self.buckets = merged;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn histogram(buckets: NativeBuckets, seconds: &[f64]) -> NativeHistogram {
        let counts: Vec<AtomicU64> = (0..buckets.len()).map(|_| AtomicU64::new(0)).collect();
        for seconds in seconds {
            counts[buckets.place(*seconds)].fetch_add(1, Relaxed);
        }
        buckets.collect(&counts)
    }

    #[test]
    fn the_factor_selects_a_schema_as_in_the_client_library() {
        let schema = |factor| NativeBuckets::new(factor, 0).map(|buckets| buckets.shown);
        assert_eq!([0.0, 1.0, f64::NAN].map(schema), [None; 3]);
        assert_eq!(
            [1.001, 1.09, 1.1, 1.2, 1.5, 2.0, 4.0, 300.0].map(schema),
            [3, 3, 3, 2, 1, 0, -1, -3].map(Some)
        );
    }

    #[test]
    fn a_bound_belongs_to_the_bucket_below_it() {
        let buckets = NativeBuckets::new(1.1, 0).unwrap();
        let found = histogram(buckets, &[1.0, 1.000_000_1, 2.0, 0.25, 0.0, 1e-5, 1e9]);
        assert_eq!(found.zero_count, 2);
        assert_eq!(found.buckets, [(-16, 1), (0, 1), (1, 1), (8, 1), (LONGEST << 3, 1)]);
    }

    #[test]
    fn buckets_are_merged_down_to_the_limit() {
        let buckets = NativeBuckets::new(1.1, 2).unwrap();
        let found = histogram(buckets, &[0.5, 0.51, 0.9, 1.0, 1.1, 7.0]);
        assert!(found.buckets.len() <= 2 && found.schema < 3, "{found:?}");
        assert_eq!(found.buckets.iter().map(|(_, count)| count).sum::<u64>(), 6);
        let coarse = histogram(NativeBuckets::new(4.0, 0).unwrap(), &[3.0, 5.0, 16.0]);
        // The bounds are 4 and 16.
        assert_eq!((coarse.schema, coarse.buckets), (-1, vec![(1, 1), (2, 2)]));
    }

    proptest! {
        #[test]
        fn each_time_is_within_its_bucket(seconds in 0.000_1_f64..4_000.0, factor in 1.05_f64..40.0) {
            let found = histogram(NativeBuckets::new(factor, 0).unwrap(), &[seconds]);
            let [(index, 1)] = found.buckets[..] else { panic!("{found:?}") };
            let bound = |index: i32| (f64::from(index) * f64::from(-found.schema).exp2()).exp2();
            prop_assert!(bound(index - 1) < seconds * 1.000_000_001, "{} {:?}", seconds, found);
            prop_assert!(seconds <= bound(index) * 1.000_000_001, "{} {:?}", seconds, found);
        }
    }
}
