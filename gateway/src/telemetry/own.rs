//! Sluice's own metrics, with the prefix `sluice_`.

use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use sluice_config::{Problem, Severity};

use super::error::TelemetryError;
use crate::cache::CacheStatus;

/// Copies of requests by result.
#[derive(Debug)]
pub(super) struct Mirrored {
    pub(super) answered: IntCounter,
    pub(super) failed: IntCounter,
    pub(super) dropped: IntCounter,
}

/// Requests inspected by firewalls, by result.
#[derive(Debug)]
pub(super) struct Inspected {
    pub(super) passed: IntCounter,
    pub(super) denied: IntCounter,
    pub(super) closed: IntCounter,
    pub(super) uninspected: IntCounter,
}

/// Clients whose use of limits was exchanged with other replicas.
#[derive(Clone, Debug)]
pub(crate) struct LimitUse {
    pub(crate) sent: IntCounter,
    pub(crate) received: IntCounter,
}

/// Metrics without a counterpart in the reference.
#[derive(Debug)]
pub(super) struct OwnMetrics {
    pub(super) apply: Histogram,
    pub(super) generation: IntGauge,
    pub(super) nodes_recomputed: IntCounterVec,
    pub(super) endpoints: IntGaugeVec,
    pub(super) retries: IntCounter,
    pub(super) authorisation_failures: IntCounter,
    pub(super) step_limits: IntCounter,
    pub(super) mirrored: Mirrored,
    pub(super) inspected: Inspected,
    /// In the order of [`CacheStatus::ALL`].
    pub(super) cached: [IntCounter; CacheStatus::ALL.len()],
    pub(super) refused_requests: IntCounterVec,
    pub(super) handshake_failures: IntCounter,
    pub(super) proxy_protocol_refused: IntCounterVec,
    pub(super) log_dropped: IntCounter,
    pub(super) program_log_dropped: IntCounter,
    pub(super) problems: IntGaugeVec,
    pub(super) problem_codes: IntGaugeVec,
    pub(super) skipped: IntGaugeVec,
    pub(super) replicas: IntGaugeVec,
    pub(super) limit_use: LimitUse,
}

impl OwnMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self, TelemetryError> {
        let apply =
            HistogramOpts::new("sluice_apply_duration_seconds", "Seconds to apply a configuration change.")
                .buckets(vec![0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0]);
        let mirrored = counters(
            "sluice_mirrored_requests_total",
            "Copies of requests for mirror-target by outcome; dropped: no capacity.",
            "outcome",
        )?;
        let inspected = counters(
            "sluice_waf_requests_total",
            "Requests to rules with a web application firewall by outcome; closed: 503, because its agent did not \
             decide; uninspected: served without a decision, because the rules only detect.",
            "outcome",
        )?;
        let cached = counters(
            "sluice_cache_requests_total",
            "Requests of rules with sluice.dev/cache by outcome, as $upstream_cache_status has it.",
            "status",
        )?;
        let limit_use = counters(
            "sluice_limit_use_total",
            "Reports of how much of its limits a client has used, to and from other replicas.",
            "direction",
        )?;
        let this = Self {
            apply: Histogram::with_opts(apply)?,
            generation: IntGauge::new(
                "sluice_generation",
                "Number of the last applied configuration \
                                                            change.",
            )?,
            nodes_recomputed: counters(
                "sluice_nodes_recomputed_total",
                "Nodes of the translation recomputed.",
                "node",
            )?,
            endpoints: gauges(
                "sluice_endpoints",
                "Endpoints by health; an endpoint of several Services counts in each.",
                "health",
            )?,
            authorisation_failures: IntCounter::new(
                "sluice_authorisation_failures_total",
                "Requests answered with 500 because an authorisation service gave no usable answer.",
            )?,
            step_limits: IntCounter::new(
                "sluice_expression_limit_total",
                "Requests answered with 500 because a regular expression reached its step limit.",
            )?,
            mirrored: Mirrored {
                answered: mirrored.with_label_values(&["answered"]),
                failed: mirrored.with_label_values(&["failed"]),
                dropped: mirrored.with_label_values(&["dropped"]),
            },
            inspected: Inspected {
                passed: inspected.with_label_values(&["passed"]),
                denied: inspected.with_label_values(&["denied"]),
                closed: inspected.with_label_values(&["closed"]),
                uninspected: inspected.with_label_values(&["uninspected"]),
            },
            cached: CacheStatus::ALL
                .map(|status| cached.with_label_values(&[&*status.as_str().to_ascii_lowercase()])),
            retries: IntCounter::new(
                "sluice_upstream_retries_total",
                "Attempts after the first of a \
                                                                       request.",
            )?,
            refused_requests: counters(
                "sluice_requests_refused_total",
                "Malformed requests by the status of the response.",
                "status",
            )?,
            handshake_failures: IntCounter::new(
                "sluice_tls_handshake_failures_total",
                "Connections whose TLS handshake failed.",
            )?,
            proxy_protocol_refused: counters(
                "sluice_proxy_protocol_refused_total",
                "Connections closed because they do not begin with a valid PROXY protocol header.",
                "reason",
            )?,
            log_dropped: IntCounter::new(
                "sluice_access_log_dropped_lines_total",
                "Access log lines dropped because they could not be written in time.",
            )?,
            program_log_dropped: IntCounter::new(
                "sluice_log_dropped_lines_total",
                "Program log lines dropped because they could not be written in time.",
            )?,
            problems: gauges("sluice_problems", "Problems in the configuration.", "severity")?,
            problem_codes: IntGaugeVec::new(
                Opts::new("sluice_problems_by_code", "Problems in the configuration by code."),
                &["severity", "class", "code"],
            )?,
            replicas: gauges(
                "sluice_limit_replicas",
                "Replicas that limits apply to together, this one included; known: that exist, heard: whose use of \
                 limits is known. 0 without limit-across-replicas.",
                "state",
            )?,
            limit_use: LimitUse {
                sent: limit_use.with_label_values(&["sent"]),
                received: limit_use.with_label_values(&["received"]),
            },
            skipped: gauges("sluice_skipped_objects", "Objects of kinds that are not served.", "kind")?,
        };
        registry.register(Box::new(this.apply.clone()))?;
        registry.register(Box::new(this.generation.clone()))?;
        registry.register(Box::new(this.nodes_recomputed.clone()))?;
        registry.register(Box::new(this.endpoints.clone()))?;
        registry.register(Box::new(this.retries.clone()))?;
        registry.register(Box::new(this.authorisation_failures.clone()))?;
        registry.register(Box::new(this.step_limits.clone()))?;
        registry.register(Box::new(mirrored))?;
        registry.register(Box::new(inspected))?;
        registry.register(Box::new(cached))?;
        registry.register(Box::new(this.refused_requests.clone()))?;
        registry.register(Box::new(this.handshake_failures.clone()))?;
        registry.register(Box::new(this.proxy_protocol_refused.clone()))?;
        registry.register(Box::new(this.log_dropped.clone()))?;
        registry.register(Box::new(this.program_log_dropped.clone()))?;
        registry.register(Box::new(this.problems.clone()))?;
        registry.register(Box::new(this.problem_codes.clone()))?;
        registry.register(Box::new(this.skipped.clone()))?;
        registry.register(Box::new(this.replicas.clone()))?;
        registry.register(Box::new(limit_use))?;
        // A series with value 0 differs from a missing one.
        for severity in Severity::ALL {
            this.problems.with_label_values(&[severity.as_str()]).set(0);
        }
        this.set_replicas(0, 0);
        Ok(this)
    }

    pub(super) fn set_replicas(&self, known: u32, heard: u32) {
        for (state, number) in [("known", known), ("heard", heard)] {
            self.replicas.with_label_values(&[state]).set(number.into());
        }
    }

    /// Returns the gauges that count a problem.
    pub(super) fn problems_of(&self, problem: &Problem) -> [IntGauge; 2] {
        let Problem { severity, code, .. } = problem;
        let labels = [severity.as_str(), code.class().as_str(), code.as_str()];
        [self.problems.with_label_values(&labels[..1]), self.problem_codes.with_label_values(&labels)]
    }
}

fn counters(name: &str, help: &str, label: &str) -> Result<IntCounterVec, prometheus::Error> {
    IntCounterVec::new(Opts::new(name, help), &[label])
}

fn gauges(name: &str, help: &str, label: &str) -> Result<IntGaugeVec, prometheus::Error> {
    IntGaugeVec::new(Opts::new(name, help), &[label])
}
