//! The traffic of rules: for `/traffic`, and for the web page over the last minute.

mod sample;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sluice_config::{Host, Rule};

use crate::state::State;
use crate::telemetry::Traffic;
pub use sample::{RuleLabels, RuleSample, TargetSample, TrafficSample};

/// Minimum age of the figures that others are compared with.
const SHORTEST: Duration = Duration::from_secs(2);
/// Maximum age of the figures that others are compared with.
const LONGEST: Duration = Duration::from_secs(120);
/// Minimum interval between figures that are kept.
const INTERVAL: Duration = Duration::from_secs(30);
/// Number of figures that are kept.
const KEPT: usize = 2;

/// All request figures at one moment.
#[derive(Debug)]
pub(super) struct TrafficFigures {
    /// When they were read.
    at: Instant,
    /// Requests read, also those without a rule.
    requests: u64,
    /// The sum of all targets.
    whole: Traffic,
    rules: HashMap<RuleLabels, Traffic>,
}

/// Figures, and earlier ones that they are compared with.
#[derive(Debug)]
pub(super) struct Comparison<'s> {
    state: &'s State,
    now: Arc<TrafficFigures>,
    earlier: Option<Arc<TrafficFigures>>,
    /// Time since the start of the process.
    uptime: Duration,
    /// Whether requests are counted by rule (`--enable-metrics`).
    pub(super) is_counted: bool,
    /// Bounds of durations.
    pub(super) bounds: Vec<f64>,
}

/// Figures of the last minute. They are read only while pages are requested.
#[derive(Debug, Default)]
pub(super) struct RecentFigures(Mutex<VecDeque<Arc<TrafficFigures>>>);

impl RecentFigures {
    /// Reads the current figures, and compares them with those of up to two minutes ago.
    pub(super) fn read<'s>(&self, state: &'s State, uptime: Duration) -> Comparison<'s> {
        let sample = TrafficSample::read(state, false);
        let now = Arc::new(TrafficFigures::of(&sample));
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = |figures: &Arc<TrafficFigures>| now.at.saturating_duration_since(figures.at);
        recent.retain(|figures| age(figures) <= LONGEST);
        let earlier = recent.front().filter(|oldest| age(oldest) >= SHORTEST).cloned();
        if recent.back().is_none_or(|last| age(last) >= INTERVAL) {
            recent.push_back(now.clone());
            if recent.len() > KEPT {
                recent.pop_front();
            }
        }
        Comparison {
            state,
            now: now.clone(),
            earlier,
            uptime,
            is_counted: sample.enabled,
            bounds: sample.bounds,
        }
    }
}

impl TrafficFigures {
    fn of(sample: &TrafficSample) -> Self {
        let rules = sample.by_rule().into_iter().map(|(labels, traffic)| (labels.clone(), traffic));
        Self { at: Instant::now(), requests: sample.requests, whole: sample.whole(), rules: rules.collect() }
    }
}

impl Comparison<'_> {
    /// Returns the time that the figures cover.
    pub(super) fn covers(&self) -> Duration {
        match &self.earlier {
            Some(earlier) => self.now.at.saturating_duration_since(earlier.at),
            None => self.uptime,
        }
    }

    /// Returns whether the figures cover the whole time since the start.
    pub(super) fn is_since_start(&self) -> bool {
        self.earlier.is_none()
    }

    /// Returns the number of requests read, also those without a rule.
    pub(super) fn requests(&self) -> u64 {
        self.now.requests.saturating_sub(self.earlier.as_ref().map_or(0, |earlier| earlier.requests))
    }

    /// Returns the sum over all rules.
    pub(super) fn whole(&self) -> Traffic {
        match &self.earlier {
            Some(earlier) => self.now.whole.since(&earlier.whole),
            None => self.now.whole.clone(),
        }
    }

    /// Returns the figures of a rule.
    pub(super) fn of(&self, host: &Host, rule: &Rule) -> Traffic {
        let labels = RuleLabels::of(self.state, host, rule);
        let Some(now) = self.now.rules.get(&labels) else { return Traffic::default() };
        match self.earlier.as_ref().and_then(|earlier| earlier.rules.get(&labels)) {
            Some(earlier) => now.since(earlier),
            None => now.clone(),
        }
    }
}
