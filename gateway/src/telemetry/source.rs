//! Connection to the source of the configuration. Only exported for remote sources; a folder is
//! always available.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, IntGauge};

use super::error::TelemetryError;

/// State of the connection to the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceContact {
    /// How long the source has not responded; zero while it responds.
    pub away: Duration,
    /// Time of the last response in Unix seconds; 0 before the first one. A source without changes
    /// responds about once per minute.
    pub last_answer: i64,
}

type Ask = Box<dyn Fn() -> SourceContact + Send + Sync>;

/// The metrics of the source.
#[derive(Default)]
pub(super) struct SourceMeters(OnceLock<Ask>);

impl SourceMeters {
    pub(super) fn watch(&self, ask: Ask) {
        // A second source would be an error of the program; the first one is kept.
        let _ = self.0.set(ask);
    }

    /// Returns the state of the connection; `None` if there is none to watch.
    pub(super) fn contact(&self) -> Option<SourceContact> {
        self.0.get().map(|ask| ask())
    }

    pub(super) fn families(&self) -> Result<Vec<MetricFamily>, TelemetryError> {
        let Some(contact) = self.contact() else { return Ok(Vec::new()) };
        let away = Gauge::new(
            "sluice_kubernetes_api_disconnected_seconds",
            "Seconds since the Kubernetes API stopped answering; 0 while it answers.",
        )?;
        away.set(contact.away.as_secs_f64());
        let last = IntGauge::new(
            "sluice_kubernetes_api_last_answer_timestamp_seconds",
            "Unix time of the last answer of the Kubernetes API.",
        )?;
        last.set(contact.last_answer);
        Ok(away.collect().into_iter().chain(last.collect()).collect())
    }
}

impl fmt::Debug for SourceMeters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceMeters").field(&self.0.get().is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unwatched_source_has_no_metrics() {
        let meters = SourceMeters::default();
        assert!(meters.families().unwrap().is_empty());
        meters.watch(Box::new(|| SourceContact { away: Duration::from_millis(1500), last_answer: 7 }));
        let families = meters.families().unwrap();
        let values: Vec<(&str, f64)> = families
            .iter()
            .map(|family| (family.name(), family.get_metric()[0].get_gauge().get_value()))
            .collect();
        assert_eq!(
            values,
            [
                ("sluice_kubernetes_api_disconnected_seconds", 1.5),
                ("sluice_kubernetes_api_last_answer_timestamp_seconds", 7.0)
            ]
        );
    }
}
