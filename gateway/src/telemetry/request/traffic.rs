//! The request figures of targets for the admin listener: requests, errors and durations.
//!
//! They are read from the same rows as the metrics, so they cost requests nothing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::RequestMeters;
use super::own::{self, WorkerRows};
use super::target::TargetLabels;

/// The requests of a target since its creation.
#[derive(Clone, Debug)]
pub(crate) struct TargetTraffic {
    /// The target.
    pub(crate) labels: Arc<TargetLabels>,
    /// Its figures.
    pub(crate) traffic: Traffic,
}

/// Numbers of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Traffic {
    /// All requests.
    pub requests: u64,
    /// Those with a status from 400 to 499.
    pub client_errors: u64,
    /// Those with a status from 500.
    pub server_errors: u64,
    /// Requests by duration: one number per upper bound, not cumulative, and a last one for longer
    /// requests.
    pub durations: Box<[u64]>,
}

/// A quantile of durations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantile {
    /// About so many seconds.
    Seconds(f64),
    /// More than the last bound, in seconds.
    Above(f64),
}

impl Quantile {
    /// Returns its lower bound in seconds.
    pub fn at_least(self) -> f64 {
        match self {
            Self::Seconds(seconds) | Self::Above(seconds) => seconds,
        }
    }
}

impl Traffic {
    /// Adds the figures of another target.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.client_errors += other.client_errors;
        self.server_errors += other.server_errors;
        if self.durations.len() < other.durations.len() {
            self.durations = std::iter::repeat_n(0, other.durations.len()).collect();
        }
        self.durations.iter_mut().zip(&other.durations).for_each(|(sum, more)| *sum += more);
    }

    /// Returns the figures since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.durations.iter().copied().chain(std::iter::repeat(0));
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            client_errors: self.client_errors.saturating_sub(earlier.client_errors),
            server_errors: self.server_errors.saturating_sub(earlier.server_errors),
            durations: self
                .durations
                .iter()
                .zip(before)
                .map(|(now, then)| now.saturating_sub(then))
                .collect(),
        }
    }

    /// Returns the duration that a share `share` of the requests does not exceed, interpolated like
    /// Prometheus' `histogram_quantile`. `None` without requests.
    pub fn quantile(&self, share: f64, bounds: &[f64]) -> Option<Quantile> {
        let total: u64 = self.durations.iter().sum();
        if total == 0 {
            return None;
        }
        let rank = share * total as f64;
        let (mut below, mut lower) = (0.0, 0.0);
        for (count, bound) in self.durations.iter().zip(bounds) {
            let count = *count as f64;
            if count > 0.0 && below + count >= rank {
                let part = ((rank - below) / count).clamp(0.0, 1.0);
                return Some(Quantile::Seconds(lower + (bound - lower) * part));
            }
            below += count;
            lower = *bound;
        }
        Some(Quantile::Above(lower))
    }
}

impl RequestMeters {
    /// Returns the ascending bounds of durations in seconds.
    pub(crate) fn durations(&self) -> &[f64] {
        self.families.times.rising()
    }

    /// Returns the figures of all targets that have had requests.
    pub(crate) fn traffic(&self) -> Vec<TargetTraffic> {
        let kept: Vec<_> = self.own.all().map(WorkerRows::keep).collect();
        let mut all = Vec::new();
        for target in self.targets() {
            let mut traffic = Traffic::default();
            for (cell, series) in target.cells().iter() {
                let durations = own::sum(series, &kept).durations(&self.families);
                let requests = durations.iter().sum();
                let (client_errors, server_errors) = match cell.status {
                    400..500 => (requests, 0),
                    500.. => (0, requests),
                    _ => (0, 0),
                };
                traffic.add(&Traffic { requests, client_errors, server_errors, durations });
            }
            if traffic.requests > 0 {
                all.push(TargetTraffic { labels: target.shared_labels(), traffic });
            }
        }
        all
    }

    /// Returns the labels in the form that targets have.
    pub(crate) fn fitted(&self, mut labels: TargetLabels) -> TargetLabels {
        self.fit(&mut labels);
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: [f64; 3] = [0.01, 0.1, 1.0];

    fn traffic(durations: [u64; 4]) -> Traffic {
        Traffic { requests: durations.iter().sum(), durations: durations.into(), ..Traffic::default() }
    }

    #[test]
    fn quantiles_are_interpolated_within_a_bucket() {
        assert_eq!(traffic([0; 4]).quantile(0.5, &BOUNDS), None);
        assert_eq!(traffic([10, 0, 0, 0]).quantile(0.5, &BOUNDS), Some(Quantile::Seconds(0.005)));
        assert_eq!(traffic([50, 50, 0, 0]).quantile(0.5, &BOUNDS), Some(Quantile::Seconds(0.01)));
        let Some(Quantile::Seconds(p99)) = traffic([98, 2, 0, 0]).quantile(0.99, &BOUNDS) else { panic!() };
        assert!((p99 - 0.055).abs() < 1e-9, "{p99}");
        assert_eq!(traffic([1, 0, 0, 99]).quantile(0.99, &BOUNDS), Some(Quantile::Above(1.0)));
    }

    #[test]
    fn figures_of_targets_are_added_and_earlier_ones_subtracted() {
        let mut sum = Traffic::default();
        sum.add(&traffic([1, 2, 3, 4]));
        sum.add(&traffic([1, 0, 0, 0]));
        assert_eq!(sum, traffic([2, 2, 3, 4]));
        assert_eq!(sum.since(&traffic([1, 2, 3, 4])), traffic([1, 0, 0, 0]));
        // The target was created anew in between.
        assert_eq!(traffic([1, 0, 0, 0]).since(&sum), traffic([0, 0, 0, 0]));
    }
}
