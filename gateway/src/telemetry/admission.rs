//! Metrics of the validating webhook, with the names of the reference. Details that exist only in
//! nginx (rendering its configuration) have no metric.

use std::time::Duration;

use prometheus::{Gauge, IntCounterVec, IntGauge, Opts, Registry};

use super::error::TelemetryError;
use super::options::TelemetryOptions;

/// Maximum number of Ingresses with counters of their own. Their names come from requests.
const INGRESSES: usize = 10_000;

/// An answered review.
#[derive(Clone, Copy, Debug)]
pub struct ReviewSample<'a> {
    /// The namespace of the Ingress.
    pub namespace: &'a str,
    /// Its name.
    pub ingress: &'a str,
    /// Whether the object was admitted.
    pub allowed: bool,
    /// Size of the request in bytes.
    pub bytes: usize,
    /// Number of evaluated Ingresses and hosts.
    pub tested: usize,
    /// Time to reach the verdict.
    pub verdict: Duration,
    /// Time from the request to its response.
    pub total: Duration,
}

/// The metrics of the webhook.
#[derive(Debug)]
pub(super) struct AdmissionMetrics {
    tested: IntGauge,
    tested_duration: Gauge,
    roundtrip: Gauge,
    size: Gauge,
    success: IntCounterVec,
    errors: IntCounterVec,
}

impl AdmissionMetrics {
    pub(super) fn new(options: &TelemetryOptions, registry: &Registry) -> Result<Self, TelemetryError> {
        let opts = |name: &str, help: &str| -> Opts { super::reference_opts(options, name, help) };
        let labels = &["namespace", "ingress"];
        let this = Self {
            tested: IntGauge::with_opts(opts(
                "admission_tested_ingresses",
                "Ingresses and hosts that the last review evaluated.",
            ))?,
            tested_duration: Gauge::with_opts(opts(
                "admission_tested_duration",
                "Seconds to evaluate the last review.",
            ))?,
            roundtrip: Gauge::with_opts(opts(
                "admission_roundtrip_duration",
                "Seconds from the last review to its answer.",
            ))?,
            size: Gauge::with_opts(opts("admission_config_size", "Bytes of the last review."))?,
            success: IntCounterVec::new(opts("check_success", "Reviews that allowed the Ingress."), labels)?,
            errors: IntCounterVec::new(opts("check_errors", "Reviews that refused the Ingress."), labels)?,
        };
        registry.register(Box::new(this.tested.clone()))?;
        registry.register(Box::new(this.tested_duration.clone()))?;
        registry.register(Box::new(this.roundtrip.clone()))?;
        registry.register(Box::new(this.size.clone()))?;
        registry.register(Box::new(this.success.clone()))?;
        registry.register(Box::new(this.errors.clone()))?;
        Ok(this)
    }

    pub(super) fn reviewed(&self, sample: &ReviewSample<'_>, known: usize) {
        self.tested.set(i64::try_from(sample.tested).unwrap_or(i64::MAX));
        self.tested_duration.set(sample.verdict.as_secs_f64());
        self.roundtrip.set(sample.total.as_secs_f64());
        self.size.set(sample.bytes as f64);
        let labels = if known < INGRESSES { [sample.namespace, sample.ingress] } else { ["_", "_"] };
        let counter = if sample.allowed { &self.success } else { &self.errors };
        counter.with_label_values(&labels).inc();
    }
}
