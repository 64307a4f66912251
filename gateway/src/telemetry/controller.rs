//! Metrics of the reference's controller that apply here: the running version, and whether the last
//! configuration was applied.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::core::Collector;
use prometheus::{Gauge, IntCounter, IntGauge, IntGaugeVec, Opts, Registry};

use super::error::TelemetryError;
use super::options::TelemetryOptions;

/// Metrics of the current configuration.
#[derive(Debug)]
pub(super) struct Controller {
    config_hash: Gauge,
    successful: IntGauge,
    successful_at: Gauge,
    success: IntCounter,
    errors: IntCounter,
    /// One series per election in which this replica takes part.
    leader: IntGaugeVec,
}

impl Controller {
    pub(super) fn new(options: &TelemetryOptions, registry: &Registry) -> Result<Self, TelemetryError> {
        let opts = |name: &str, help: &str| -> Opts { super::reference_opts(options, name, help) };
        let build = IntGauge::with_opts(
            opts("build_info", "Version of the program; always 1.")
                .const_label("release", &options.release)
                .const_label("build", &options.build)
                .const_label("repository", &options.repository),
        )?;
        build.set(1);
        let this = Self {
            config_hash: Gauge::with_opts(opts("config_hash", "Equal where the configuration is equal."))?,
            successful: IntGauge::with_opts(opts(
                "config_last_reload_successful",
                "Whether the last configuration change was applied completely.",
            ))?,
            successful_at: Gauge::with_opts(opts(
                "config_last_reload_successful_timestamp_seconds",
                "When a configuration change was last applied completely, Unix seconds.",
            ))?,
            success: IntCounter::with_opts(opts("success", "Configuration changes applied completely."))?,
            errors: IntCounter::with_opts(opts("errors", "Configuration changes with refused parts."))?,
            leader: IntGaugeVec::new(
                opts("leader_election_status", "Whether this replica holds the Lease of this name: 1, or 0."),
                &["name"],
            )?,
        };
        registry.register(Box::new(build))?;
        registry.register(Box::new(this.config_hash.clone()))?;
        registry.register(Box::new(this.successful.clone()))?;
        registry.register(Box::new(this.successful_at.clone()))?;
        registry.register(Box::new(this.success.clone()))?;
        registry.register(Box::new(this.errors.clone()))?;
        registry.register(Box::new(this.leader.clone()))?;
        Ok(this)
    }

    pub(super) fn leads(&self, election: &str, leads: bool) {
        self.leader.with_label_values(&[election]).set(i64::from(leads));
    }

    /// Returns the elections in which this replica takes part, and whether it leads.
    pub(super) fn elections(&self) -> Vec<(String, bool)> {
        let families = self.leader.collect();
        let elections = families.iter().flat_map(|family| family.get_metric()).map(|metric| {
            let name = metric.get_label().iter().find(|label| label.name() == "name");
            let name = name.map(|label| label.value().to_owned()).unwrap_or_default();
            (name, metric.get_gauge().get_value() > 0.0)
        });
        elections.collect()
    }

    pub(super) fn applied(&self, whole: bool, hash: u64) {
        // A gauge is a double, so only 53 bits of the hash can be exported.
        self.config_hash.set((hash >> 11) as f64);
        self.successful.set(i64::from(whole));
        if whole {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.successful_at.set(now.as_secs() as f64);
            self.success.inc();
        } else {
            self.errors.inc();
        }
    }
}
