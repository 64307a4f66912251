//! Medians over the rounds, and ratios within each of them.

use super::sample::Sample;

/// All samples of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    samples: Vec<Sample>,
}

/// A ratio of two proxies: the median over the rounds, with the lowest and the highest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Summary {
    /// Of these samples.
    pub fn new(samples: Vec<Sample>) -> Self {
        Self { samples }
    }

    /// All samples.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The names of those who took part in a scenario, in the order of their first sample in the first round.
    pub fn peers(&self, scenario: &str) -> Vec<&str> {
        let mut peers: Vec<&str> = Vec::new();
        for sample in self.of(scenario) {
            if !peers.contains(&sample.peer.as_str()) {
                peers.push(&sample.peer);
            }
        }
        peers
    }

    /// The median of a figure over the rounds; `None` when there is none.
    pub fn median(&self, scenario: &str, peer: &str, figure: impl Fn(&Sample) -> f64) -> Option<f64> {
        median(self.of(scenario).filter(|sample| sample.peer == peer).map(figure).collect())
    }

    /// The largest of a figure over the rounds.
    pub fn worst(&self, scenario: &str, peer: &str, figure: impl Fn(&Sample) -> f64) -> f64 {
        self.of(scenario).filter(|sample| sample.peer == peer).map(figure).fold(0.0, f64::max)
    }

    /// A figure of one proxy over that of another, or of the same in another scenario, round by round.
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

/// A proxy that used its core for less of the time has not shown what it can do.
pub(super) const BUSY: f64 = 0.9;

/// Requests a second, where the proxy was what limited them.
pub(super) fn busy_rate(summary: &Summary, scenario: &str, peer: &str) -> Option<f64> {
    summary.median(scenario, peer, Sample::busy).filter(|&busy| busy >= BUSY)?;
    summary.median(scenario, peer, Sample::rate)
}

/// The median of some values; `None` when there are none.
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
        // The machine was twice as slow in the second round: the ratio does not see it.
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
