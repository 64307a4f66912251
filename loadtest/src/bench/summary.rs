//! Medians over the rounds, and ratios within rounds.

use super::sample::Sample;

/// All samples of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    samples: Vec<Sample>,
}

/// The ratio of two proxies: the median over the rounds, with the minimum and maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    /// The minimum.
    pub least: f64,
    /// The maximum.
    pub most: f64,
}

impl Summary {
    /// Creates a summary of samples.
    pub fn new(samples: Vec<Sample>) -> Self {
        Self { samples }
    }

    /// Returns all samples.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Returns the names of the peers in a scenario, in the order of their first samples.
    pub fn peers(&self, scenario: &str) -> Vec<&str> {
        let mut peers: Vec<&str> = Vec::new();
        for sample in self.of(scenario) {
            if !peers.contains(&sample.peer.as_str()) {
                peers.push(&sample.peer);
            }
        }
        peers
    }

    /// Returns the median of a figure over the rounds, or `None` without samples.
    pub fn median(&self, scenario: &str, peer: &str, figure: impl Fn(&Sample) -> f64) -> Option<f64> {
        median(self.of(scenario).filter(|sample| sample.peer == peer).map(figure).collect())
    }

    /// Returns the maximum of a figure over the rounds.
    pub fn worst(&self, scenario: &str, peer: &str, figure: impl Fn(&Sample) -> f64) -> f64 {
        self.of(scenario).filter(|sample| sample.peer == peer).map(figure).fold(0.0, f64::max)
    }

    /// Returns the ratio, round by round, of a proxy's figure to that of another, or to its own in
    /// another scenario.
    pub fn ratio(
        &self,
        (scenario, peer): (&str, &str),
        (base_scenario, base_peer): (&str, &str),
        figure: impl Fn(&Sample) -> f64,
    ) -> Option<Ratio> {
        let ratios: Vec<f64> = self
            .of(scenario)
            .filter(|sample| sample.peer == peer)
            .filter_map(|sample| {
                let mut bases = self.of(base_scenario);
                let base = bases.find(|base| base.round == sample.round && base.peer == base_peer)?;
                let ratio = figure(sample) / figure(base);
                ratio.is_finite().then_some(ratio)
            })
            .collect();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        median(ratios).map(|median| Ratio { median, least, most })
    }

    fn of(&self, scenario: &str) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.scenario == scenario)
    }
}

/// Minimum share of busy time for which requests per second show a proxy's capacity.
pub(super) const BUSY: f64 = 0.9;

/// Returns the requests per second if the proxy was the bottleneck.
pub(super) fn busy_rate(summary: &Summary, scenario: &str, peer: &str) -> Option<f64> {
    summary.median(scenario, peer, Sample::busy).filter(|&busy| busy >= BUSY)?;
    summary.median(scenario, peer, Sample::rate)
}

/// Returns the median, or `None` without values.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::load::Work;
    use crate::bench::usage::Usage;

    pub(in crate::bench) fn sample(round: usize, peer: &str, microseconds: u64) -> Sample {
        Sample {
            round,
            scenario: "h1",
            peer: peer.to_owned(),
            work: Work { served: 1, elapsed: Duration::from_secs(1), ..Work::default() },
            usage: Usage { user: Duration::from_micros(microseconds), system: Duration::ZERO },
            at_rest: 0,
            under_load: 0,
            idle: None,
            unlogged: 0,
        }
    }

    #[test]
    fn a_ratio_is_taken_within_a_round() {
        // The machine was twice as slow in the second round. The ratio is not affected.
        let summary = Summary::new(vec![
            sample(0, "one", 10),
            sample(0, "two", 20),
            sample(1, "two", 40),
            sample(1, "one", 20),
            sample(2, "one", 10),
            sample(2, "two", 30),
        ]);
        assert_eq!(summary.peers("h1"), ["one", "two"]);
        assert_eq!(summary.median("h1", "two", Sample::cpu), Some(30.0));
        let ratio = summary.ratio(("h1", "two"), ("h1", "one"), Sample::cpu);
        assert_eq!(ratio, Some(Ratio { median: 2.0, least: 2.0, most: 3.0 }));
        assert_eq!(summary.ratio(("h1", "two"), ("h1", "three"), Sample::cpu), None);
    }
}
