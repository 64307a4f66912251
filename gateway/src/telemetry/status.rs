//! Figures of the process for the web page, read from the counters of the metrics.

use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;

use super::Telemetry;
use super::source::SourceContact;

/// Figures of the process at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessStatus {
    /// The version of the program.
    pub(crate) release: String,
    /// The name of the Pod; empty outside of a cluster.
    pub(crate) pod: String,
    /// Its namespace.
    pub(crate) namespace: String,
    /// When the process started, in Unix seconds.
    pub(crate) started: i64,
    /// Resident memory in bytes.
    pub(crate) resident: u64,
    /// Open file descriptors.
    pub(crate) descriptors: u64,
    /// Maximum number of open file descriptors.
    pub(crate) descriptor_limit: u64,
    /// Client connections now.
    pub(crate) connections: i64,
    /// Client connections accepted so far.
    pub(crate) accepted: u64,
    /// Client connections refused so far.
    pub(crate) refused: u64,
    /// Requests in progress.
    pub(crate) in_progress: i64,
    /// Requests read so far.
    pub(crate) requests: u64,
    /// Attempts after the first of a request.
    pub(crate) retries: u64,
    /// Elections in which the replica takes part, and whether it leads.
    pub(crate) elections: Vec<(String, bool)>,
    /// The connection to the Kubernetes API; `None` for a folder.
    pub(crate) source: Option<SourceContact>,
}

impl ProcessStatus {
    /// Returns namespace and name of the Pod; empty outside of a cluster.
    pub(crate) fn replica(&self) -> String {
        let Self { pod, namespace, .. } = self;
        if pod.is_empty() { String::new() } else { format!("{namespace}/{pod}") }
    }
}

impl Telemetry {
    /// Returns the figures of the process.
    pub(crate) fn status(&self) -> ProcessStatus {
        let counted = self.connections.read();
        let mut status = ProcessStatus {
            release: self.options.release.clone(),
            pod: self.options.controller_pod.clone(),
            namespace: self.options.controller_namespace.clone(),
            connections: counted.active,
            accepted: counted.accepted,
            refused: counted.refused,
            in_progress: counted.writing,
            requests: counted.requests,
            retries: self.own.retries.get(),
            elections: self.controller.elections(),
            source: self.source.contact(),
            ..ProcessStatus::default()
        };
        for family in ProcessCollector::for_self().collect() {
            let Some(metric) = family.get_metric().first() else { continue };
            let value = metric.get_gauge().get_value();
            match family.name() {
                "process_start_time_seconds" => status.started = value as i64,
                "process_resident_memory_bytes" => status.resident = value as u64,
                "process_open_fds" => status.descriptors = value as u64,
                "process_max_fds" => status.descriptor_limit = value as u64,
                _ => {}
            }
        }
        status
    }
}
