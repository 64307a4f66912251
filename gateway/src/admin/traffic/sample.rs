//! The request figures of a replica at one moment: the document `/traffic`, which the web page,
//! `sluice top` and scripts read.
//!
//! Figures are counters, so those of several replicas can be added, and two samples can be
//! subtracted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sluice_config::{Host, Rule};

use crate::state::State;
use crate::telemetry::{TargetLabels, TargetTraffic, Traffic};

/// The figures of all targets since the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrafficSample {
    /// Namespace and name of the Pod; empty outside of a cluster.
    pub replica: String,
    /// Equal for equal configurations.
    pub hash: String,
    /// Milliseconds since the start of 1970.
    pub at: u64,
    /// When the process started, in Unix seconds.
    pub started: i64,
    /// Whether requests are counted by target (`--enable-metrics`).
    pub enabled: bool,
    /// Requests read, also those without a rule.
    pub requests: u64,
    /// Client connections now.
    pub connections: i64,
    /// Upper bounds of durations in seconds.
    pub bounds: Vec<f64>,
    /// Targets that have had requests.
    pub targets: Vec<TargetSample>,
    /// All rules, if the query contains `rules`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<RuleSample>>,
}

/// The labels of the figures of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleLabels {
    /// The host as written in the Ingress.
    pub host: Arc<str>,
    /// The path as written in the Ingress.
    pub path: Arc<str>,
    /// Namespace of the Ingress.
    pub namespace: Arc<str>,
    /// Name of the Ingress.
    pub ingress: Arc<str>,
}

/// The figures of a target.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetSample {
    /// The rule.
    #[serde(flatten)]
    pub rule: RuleLabels,
    /// Name of the Service.
    pub service: Arc<str>,
    /// `namespace-service-port` of a canary; empty for others.
    pub canary: Arc<str>,
    /// Its requests.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// A rule of the configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleSample {
    /// The labels of its figures.
    #[serde(flatten)]
    pub labels: RuleLabels,
    /// The kind of its object.
    pub kind: Arc<str>,
    /// Why it is closed, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
}

impl TrafficSample {
    /// Reads the current figures, and the rules if they are wanted.
    pub(in crate::admin) fn read(state: &State, with_rules: bool) -> Self {
        let meters = state.telemetry.requests();
        let status = state.telemetry.status();
        let configuration = state.configuration.load();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let targets = meters.map(|meters| meters.traffic()).unwrap_or_default();
        let mut targets: Vec<_> = targets.into_iter().map(TargetSample::of).collect();
        targets.sort_by_cached_key(|one| (one.rule.clone(), one.service.clone()));
        let rules = with_rules.then(|| {
            let rules = configuration.hosts.values().flat_map(|host| {
                host.rules.iter().map(|rule| RuleSample {
                    labels: RuleLabels::of(state, host, rule),
                    kind: rule.origin.object.kind.clone(),
                    closed: rule.policies.deny.as_ref().map(|deny| deny.reason.to_string()),
                })
            });
            rules.collect()
        });
        Self {
            replica: status.replica(),
            hash: format!("{:016x}", configuration.hash()),
            at: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            started: status.started,
            enabled: meters.is_some(),
            requests: status.requests,
            connections: status.connections,
            bounds: meters.map(|meters| meters.durations().to_vec()).unwrap_or_default(),
            targets,
            rules,
        }
    }

    /// Returns the figures of each rule that has had requests.
    pub fn by_rule(&self) -> HashMap<&RuleLabels, Traffic> {
        let mut rules = HashMap::<_, Traffic>::new();
        for target in &self.targets {
            rules.entry(&target.rule).or_default().add(&target.traffic);
        }
        rules
    }

    /// Returns the sum of all targets.
    pub fn whole(&self) -> Traffic {
        let mut whole = Traffic::default();
        self.targets.iter().for_each(|target| whole.add(&target.traffic));
        whole
    }
}

impl RuleLabels {
    /// Returns the labels under which the requests of a rule are counted. The host is empty if
    /// hosts are not distinguished (`--metrics-per-host=false`).
    pub(in crate::admin) fn of(state: &State, host: &Host, rule: &Rule) -> Self {
        let origin = &rule.origin;
        let labels = TargetLabels {
            host: host.key.pattern.to_string().into(),
            path: origin.path.clone(),
            namespace: origin.object.name.namespace.clone(),
            ingress: origin.object.name.name.clone(),
            ..TargetLabels::default()
        };
        let fitted = state.telemetry.requests().map(|meters| meters.fitted(labels.clone()));
        let TargetLabels { host, path, namespace, ingress, .. } = fitted.unwrap_or(labels);
        Self { host, path, namespace, ingress }
    }
}

impl TargetSample {
    fn of(TargetTraffic { labels, traffic }: TargetTraffic) -> Self {
        let TargetLabels { host, path, namespace, ingress, service, canary } = (*labels).clone();
        Self { rule: RuleLabels { host, path, namespace, ingress }, service, canary, traffic }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_a_rule_are_added() {
        let target = |path: &str, service: &str, requests: u64| TargetSample {
            rule: RuleLabels { path: path.into(), ..RuleLabels::default() },
            service: service.into(),
            canary: Arc::default(),
            traffic: Traffic { requests, durations: [requests].into(), ..Traffic::default() },
        };
        let targets = vec![target("/a", "one", 1), target("/a", "two", 2), target("/b", "one", 4)];
        let sample = TrafficSample { targets, ..TrafficSample::default() };
        let rules = sample.by_rule();
        let requests =
            |path: &str| rules[&RuleLabels { path: path.into(), ..RuleLabels::default() }].requests;
        assert_eq!((requests("/a"), requests("/b")), (3, 4));
        assert_eq!(sample.whole().requests, 7);
    }

    #[test]
    fn a_sample_survives_its_journey_as_json() {
        let sample = TrafficSample {
            replica: "edge/a".into(),
            targets: vec![TargetSample {
                rule: RuleLabels { host: "a.example".into(), ..RuleLabels::default() },
                service: "web".into(),
                canary: Arc::default(),
                traffic: Traffic { requests: 1, durations: [1, 0].into(), ..Traffic::default() },
            }],
            ..TrafficSample::default()
        };
        let text = serde_json::to_string(&sample).unwrap();
        let read: TrafficSample = serde_json::from_str(&text).unwrap();
        assert_eq!((&*read.replica, read.targets[0].traffic.requests), ("edge/a", 1));
        assert!(read.rules.is_none() && !text.contains("rules"));
    }
}
