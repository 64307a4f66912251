//! The recent samples of one replica.

use std::collections::VecDeque;
use std::net::SocketAddr;

use sluice_gateway::admin::{RuleSample, TrafficSample};

use crate::observe::Replica;
use crate::observe::replica::prefix;

/// The time that figures cover at most, in milliseconds.
const WINDOW: u64 = 10_000;

/// The recent samples of one replica, and its rules.
#[derive(Debug)]
pub(super) struct History {
    replica: Replica,
    /// In the order of time; the last is the current one.
    samples: VecDeque<TrafficSample>,
    /// All rules of its configuration.
    pub(super) rules: Vec<RuleSample>,
    /// Why its last sample could not be read.
    error: Option<String>,
}

impl History {
    pub(super) fn of(replica: Replica) -> Self {
        Self { replica, samples: VecDeque::new(), rules: Vec::new(), error: None }
    }

    /// Reads a sample from the replica; its rules only if its configuration has changed.
    pub(super) fn look(&mut self) {
        let sample = match self.samples.back() {
            None => self.replica.document::<TrafficSample>("traffic?rules"),
            Some(last) => match self.replica.document::<TrafficSample>("traffic") {
                Ok(sample) if sample.hash != last.hash => self.replica.document("traffic?rules"),
                other => other,
            },
        };
        match sample {
            Ok(sample) => self.add(sample),
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    /// Adds a sample, and removes those that are too old.
    pub(super) fn add(&mut self, mut sample: TrafficSample) {
        self.error = None;
        if let Some(rules) = sample.rules.take() {
            self.rules = rules;
        }
        // A process that has been restarted counts from zero.
        if self.samples.back().is_some_and(|last| last.started != sample.started) {
            self.samples.clear();
        }
        let oldest = sample.at.saturating_sub(WINDOW);
        self.samples.retain(|earlier| earlier.at >= oldest);
        self.samples.push_back(sample);
    }

    /// Returns the current sample; `None` if there is none.
    pub(super) fn now(&self) -> Option<&TrafficSample> {
        self.samples.back().filter(|_| self.error.is_none())
    }

    /// Returns the sample that the current one is compared with.
    pub(super) fn earlier(&self) -> Option<&TrafficSample> {
        self.samples.front().filter(|_| self.samples.len() > 1)
    }

    /// Returns why the last sample could not be read.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Returns a message about the last sample, if it could not be read.
    pub(super) fn failure(&self) -> Option<String> {
        self.error().map(|error| format!("{}{error}", prefix(&self.replica.name)))
    }

    /// Returns the name of the replica.
    pub(super) fn name(&self) -> String {
        let named = [Some(&self.replica.name), self.samples.back().map(|sample| &sample.replica)];
        let name = named.into_iter().flatten().find(|name| !name.is_empty());
        let address = || self.replica.address.as_ref().map_or_else(String::clone, SocketAddr::to_string);
        name.cloned().unwrap_or_else(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, started: i64) -> TrafficSample {
        TrafficSample { at, started, ..TrafficSample::default() }
    }

    #[test]
    fn figures_cover_the_last_seconds_of_one_process() {
        let mut history = History::of(Replica::here("127.0.0.1:1".parse().unwrap()));
        assert_eq!(history.name(), "127.0.0.1:1");
        history.add(sample(0, 1));
        assert!(history.earlier().is_none(), "there is nothing to compare with");
        history.add(sample(2_000, 1));
        history.add(sample(11_000, 1));
        assert_eq!(history.earlier().map(|sample| sample.at), Some(2_000));
        history.add(sample(13_000, 2));
        assert!(history.earlier().is_none(), "it counts from zero");
        assert_eq!(history.now().map(|sample| sample.at), Some(13_000));
    }
}
