//! The figures of rules, added over all replicas, and what differs between these.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;
use sluice_gateway::admin::{RuleLabels, TrafficSample};
use sluice_gateway::telemetry::Traffic;

use super::history::History;
use crate::flags::{Top, TopOrder};

/// What `top` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TopFigures {
    /// The time that the figures cover, in seconds.
    pub(super) seconds: f64,
    /// Whether all replicas count requests by rule.
    pub(super) counted: bool,
    pub(super) replicas: Vec<ReplicaFigures>,
    pub(super) rules: Vec<RuleFigures>,
}

/// A replica.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReplicaFigures {
    pub(super) name: String,
    /// The hash of its configuration.
    pub(super) configuration: String,
    /// Whether most replicas have another configuration.
    pub(super) differs: bool,
    /// Rules that other replicas have.
    pub(super) lacks: Vec<RuleLabels>,
    /// All requests, also those without a rule.
    pub(super) requests_per_second: f64,
    pub(super) connections: i64,
    /// Why it has no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// A rule.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RuleFigures {
    #[serde(flatten)]
    pub(super) labels: RuleLabels,
    /// The kind of its object; empty if the rule has been removed.
    pub(super) kind: Arc<str>,
    /// Why it is closed, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) closed: Option<String>,
    pub(super) requests: u64,
    pub(super) requests_per_second: f64,
    pub(super) client_errors: u64,
    pub(super) server_errors: u64,
    /// Half of the requests took at most so many seconds.
    pub(super) p50: Option<f64>,
    /// 99 of 100 requests took at most so many seconds; at least so many if they took longer than
    /// the last bound of `--time-buckets`.
    pub(super) p99: Option<f64>,
    #[serde(skip)]
    pub(super) traffic: Traffic,
    #[serde(skip)]
    pub(super) bounds: Arc<[f64]>,
}

/// The sum of a rule so far.
#[derive(Default)]
struct RuleSum {
    kind: Arc<str>,
    closed: Option<String>,
    traffic: Traffic,
    rate: f64,
}

impl TopFigures {
    /// Computes the figures of all replicas, in the order of the arguments.
    pub(super) fn of(histories: &[History], arguments: &Top) -> Self {
        let compared = || histories.iter().filter_map(|history| Some((history.now()?, history.earlier()?)));
        let first = histories.iter().find_map(History::now);
        let bounds: Arc<[f64]> = first.map(|sample| sample.bounds.clone()).unwrap_or_default().into();
        let mut sums = BTreeMap::<RuleLabels, RuleSum>::new();
        for rule in histories.iter().filter(|history| history.now().is_some()).flat_map(|one| &one.rules) {
            let sum = sums.entry(rule.labels.clone()).or_default();
            (sum.kind, sum.closed) = (rule.kind.clone(), rule.closed.clone());
        }
        for (now, earlier) in compared() {
            let before = earlier.by_rule();
            for (labels, traffic) in now.by_rule() {
                let mut traffic =
                    before.get(labels).map_or_else(|| traffic.clone(), |then| traffic.since(then));
                // Figures of replicas with other buckets cannot be added.
                if *now.bounds != *bounds {
                    traffic.durations = Box::default();
                }
                let sum = sums.entry(labels.clone()).or_default();
                sum.rate += per_second(traffic.requests, seconds(now, earlier));
                sum.traffic.add(&traffic);
            }
        }
        let mut rules: Vec<_> = sums
            .into_iter()
            .filter(|(_, sum)| arguments.all || sum.traffic.requests > 0)
            .map(|(labels, sum)| RuleFigures::of(labels, sum, &bounds))
            .collect();
        sort(&mut rules, arguments.sort);
        Self {
            seconds: compared().map(|(now, earlier)| seconds(now, earlier)).fold(0.0, f64::max),
            counted: histories.iter().filter_map(History::now).all(|sample| sample.enabled),
            replicas: replicas(histories),
            rules,
        }
    }
}

impl RuleFigures {
    fn of(labels: RuleLabels, sum: RuleSum, bounds: &Arc<[f64]>) -> Self {
        let RuleSum { kind, closed, traffic, rate } = sum;
        let quantile = |share| traffic.quantile(share, bounds).map(|quantile| quantile.at_least());
        Self {
            labels,
            kind,
            closed,
            requests: traffic.requests,
            requests_per_second: rate,
            client_errors: traffic.client_errors,
            server_errors: traffic.server_errors,
            p50: quantile(0.5),
            p99: quantile(0.99),
            traffic,
            bounds: bounds.clone(),
        }
    }
}

/// Sorts by the order, then by requests; rules without differences keep their order by name.
fn sort(rules: &mut [RuleFigures], order: TopOrder) {
    match order {
        TopOrder::Rate => rules.sort_by_key(|rule| Reverse(rule.requests)),
        TopOrder::Errors => rules.sort_by_key(|rule| Reverse((rule.server_errors, rule.requests))),
        // The figures are not negative, so their bits have their order.
        TopOrder::Latency => {
            rules.sort_by_key(|rule| Reverse((rule.p99.map(f64::to_bits), rule.requests)));
        }
    }
}

/// Describes all replicas, and how they differ.
fn replicas(histories: &[History]) -> Vec<ReplicaFigures> {
    let usual = usual_hash(histories);
    let sets: Vec<BTreeSet<&RuleLabels>> = histories.iter().map(current_rules).collect();
    let all: BTreeSet<&RuleLabels> = sets.iter().flatten().copied().collect();
    let one = |(history, rules): (&History, &BTreeSet<&RuleLabels>)| {
        let name = history.name();
        let Some(now) = history.now() else {
            return ReplicaFigures { name, error: history.error().map(str::to_owned), ..Default::default() };
        };
        let rate = history.earlier().map_or(0.0, |earlier| {
            per_second(now.requests.saturating_sub(earlier.requests), seconds(now, earlier))
        });
        ReplicaFigures {
            name,
            configuration: now.hash.clone(),
            differs: Some(&*now.hash) != usual,
            lacks: all.difference(rules).map(|labels| (*labels).clone()).collect(),
            requests_per_second: rate,
            connections: now.connections,
            error: None,
        }
    };
    histories.iter().zip(&sets).map(one).collect()
}

/// Returns the rules of a replica; none if it does not answer, because they may have been removed.
fn current_rules(history: &History) -> BTreeSet<&RuleLabels> {
    match history.now() {
        Some(_) => history.rules.iter().map(|rule| &rule.labels).collect(),
        None => BTreeSet::new(),
    }
}

/// Returns the configuration of most replicas; of the first ones among equals.
fn usual_hash(histories: &[History]) -> Option<&str> {
    let mut counts = HashMap::<&str, usize>::new();
    let hashes = || histories.iter().filter_map(History::now).map(|sample| &*sample.hash);
    hashes().for_each(|hash| *counts.entry(hash).or_default() += 1);
    // Of equal maxima, `max_by_key` returns the last.
    hashes().rev().max_by_key(|hash| counts[hash])
}

/// Returns the seconds between two samples.
fn seconds(now: &TrafficSample, earlier: &TrafficSample) -> f64 {
    now.at.saturating_sub(earlier.at) as f64 / 1000.0
}

fn per_second(events: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { events as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use sluice_gateway::admin::{RuleSample, TargetSample};

    use super::*;
    use crate::flags::Output;
    use crate::observe::Replica;

    pub(crate) fn arguments(sort: TopOrder, all: bool) -> Top {
        Top { sort, interval: Duration::from_secs(1), once: true, all, output: Output::Table }
    }

    fn labels(path: &str) -> RuleLabels {
        RuleLabels {
            host: "shop.example".into(),
            path: path.into(),
            namespace: "default".into(),
            ingress: "shop".into(),
        }
    }

    /// A replica with these rules, which has had so many fast and failed requests for each within
    /// two seconds.
    pub(crate) fn replica(name: &str, hash: &str, rules: &[(&str, u64, u64)]) -> History {
        let mut history =
            History::of(Replica { name: name.to_owned(), address: Ok("127.0.0.1:1".parse().unwrap()) });
        let sample = |at, times: u64| TrafficSample {
            hash: hash.to_owned(),
            at,
            enabled: true,
            requests: times * rules.iter().map(|(_, fast, failed)| fast + failed).sum::<u64>(),
            connections: 3,
            bounds: vec![0.1, 1.0],
            targets: rules
                .iter()
                .map(|(path, fast, failed)| TargetSample {
                    rule: labels(path),
                    service: "web".into(),
                    canary: Arc::default(),
                    traffic: Traffic {
                        requests: times * (fast + failed),
                        client_errors: 0,
                        server_errors: times * failed,
                        durations: [times * fast, 0, times * failed].into(),
                    },
                })
                .collect(),
            rules: Some(
                rules
                    .iter()
                    .map(|(path, ..)| RuleSample {
                        labels: labels(path),
                        kind: "Ingress".into(),
                        closed: None,
                    })
                    .collect(),
            ),
            ..TrafficSample::default()
        };
        history.add(sample(0, 1));
        history.add(sample(2_000, 2));
        history
    }

    #[test]
    fn figures_of_replicas_are_added() {
        let histories = [replica("a", "1", &[("/", 10, 0)]), replica("b", "1", &[("/", 30, 20)])];
        let figures = TopFigures::of(&histories, &arguments(TopOrder::Rate, false));
        let [rule] = &*figures.rules else { panic!("{figures:?}") };
        assert_eq!((rule.requests, rule.server_errors, rule.requests_per_second), (60, 20, 30.0));
        assert!(rule.p50.unwrap() < 0.1);
        assert_eq!(rule.p99, Some(1.0), "the failed ones took longer than the last bound");
        assert_eq!(figures.seconds, 2.0);
        let rates: Vec<f64> = figures.replicas.iter().map(|one| one.requests_per_second).collect();
        assert_eq!(rates, [5.0, 25.0]);
        assert!(figures.replicas.iter().all(|one| !one.differs && one.lacks.is_empty()));
    }

    #[test]
    fn rules_are_sorted_and_idle_ones_are_shown_on_demand() {
        let rules = [("/busy", 50, 0), ("/failing", 5, 3), ("/idle", 0, 0)];
        let paths = |sort, all| {
            let figures = TopFigures::of(&[replica("a", "1", &rules)], &arguments(sort, all));
            figures.rules.iter().map(|rule| rule.labels.path.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(paths(TopOrder::Rate, false), ["/busy", "/failing"]);
        assert_eq!(paths(TopOrder::Errors, false), ["/failing", "/busy"]);
        assert_eq!(paths(TopOrder::Latency, true), ["/failing", "/busy", "/idle"]);
    }

    #[test]
    fn a_replica_with_another_configuration_is_named_with_what_it_lacks() {
        let whole = [("/", 1, 0), ("/new", 1, 0)];
        let histories =
            [replica("a", "1", &whole), replica("b", "2", &whole[..1]), replica("c", "1", &whole)];
        let figures = TopFigures::of(&histories, &arguments(TopOrder::Rate, false));
        let differs: Vec<bool> = figures.replicas.iter().map(|one| one.differs).collect();
        assert_eq!(differs, [false, true, false]);
        assert_eq!(figures.replicas[1].lacks, [labels("/new")]);
        assert!(figures.replicas[0].lacks.is_empty());
    }
    #[test]
    fn others_lacked_rules_that_a_replica_had_before_it_was_gone() {
        let mut gone = replica("a", "1", &[("/", 1, 0), ("/removed", 1, 0)]);
        // Nothing listens on port 1.
        gone.look();
        let histories = [gone, replica("b", "2", &[("/", 1, 0)])];
        let figures = TopFigures::of(&histories, &arguments(TopOrder::Rate, false));
        assert!(figures.replicas[0].error.is_some(), "{figures:?}");
        assert!(figures.replicas.iter().all(|one| one.lacks.is_empty()), "{figures:?}");
    }
}
