//! Metrics and the access log.
//!
//! Events are counted in atomics where they happen. A scrape converts the counts into Prometheus'
//! text format. The names, labels and buckets of the request metrics are those of ingress-nginx
//! (the reference), so that existing dashboards and alerts keep working; metrics without a
//! counterpart there have the prefix `sluice_`.

mod access_log;
mod admission;
mod certificates;
mod checks;
pub mod configuration;
mod connections;
mod controller;
mod error;
mod log_format;
mod memory;
mod options;
pub(crate) mod orphans;
mod otel;
mod outcomes;
mod own;
mod process;
pub(crate) mod protobuf;
#[cfg(test)]
mod reference;
mod request;
mod sink;
mod source;
mod status;
mod stream;
mod stream_log;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::StatusCode;
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, Opts, Registry, TextEncoder};
use sluice_config::{Generation, GlobalSettings, Problem, ServiceRef};

pub use access_log::AccessLog;
pub use admission::ReviewSample;
pub use certificates::HostCertificate;
pub use error::TelemetryError;
pub use log_format::{LogFormat, LogLine};
pub use memory::MemoryUse;
pub use options::TelemetryOptions;
pub(crate) use otel::OtelCounts;
pub(crate) use outcomes::{InspectionOutcome, MirrorOutcome, ProxyProtocolFault};
pub(crate) use request::TargetTraffic;
pub use request::{Quantile, RequestMeters, RequestSample, TargetLabels, TargetMeters, Traffic};
pub use sink::LogFault;
pub use source::SourceContact;
pub(crate) use status::ProcessStatus;
pub(crate) use stream::StreamMeters;
pub(crate) use stream_log::StreamRecord;

use crate::cache::CacheStatus;
use crate::registry::{HealthCheckResults, HealthCounts};

use admission::AdmissionMetrics;
use connections::Connections;
use controller::Controller;
use orphans::Orphan;
pub(crate) use own::LimitUse;
use own::OwnMetrics;
use request::RequestCollector;
use stream::StreamFamilies;

/// Maximum number of unsupported kinds of objects with a label of their own.
const SKIPPED_KINDS: usize = 100;
/// Maximum length of such a label in bytes: kind (63), dot, group (253), the limits of Kubernetes.
const SKIPPED_KIND: usize = 63 + 1 + 253;

/// All metrics and logs of the data plane.
#[derive(Debug)]
pub struct Telemetry {
    /// Receives the lines of the access log.
    pub access_log: AccessLog,
    /// Receives the lines of the stream log, if it has its own output.
    pub stream_log: AccessLog,
    /// The queue of the program log, for the number of its dropped lines.
    program_log: AccessLog,
    options: TelemetryOptions,
    registry: Registry,
    requests: Option<Arc<RequestMeters>>,
    connections: Arc<Connections>,
    controller: Controller,
    admission: AdmissionMetrics,
    /// Number of reviews so far.
    reviews: AtomicUsize,
    own: OwnMetrics,
    streams: StreamFamilies,
    source: source::SourceMeters,
}

impl Telemetry {
    /// Creates all metrics.
    ///
    /// # Errors
    /// The bounds of a histogram are not ascending.
    pub fn new(options: TelemetryOptions, access_log: AccessLog) -> Result<Self, TelemetryError> {
        let registry = Registry::new();
        let requests = match options.enable_metrics {
            true => Some(RequestMeters::new(&options, &registry)?),
            false => None,
        };
        let connections = Arc::new(Connections::default());
        connections::register(&options, &registry, connections.clone())?;
        process::register(&options, &registry)?;
        Ok(Self {
            access_log,
            stream_log: AccessLog::none(),
            program_log: AccessLog::none(),
            requests,
            connections,
            controller: Controller::new(&options, &registry)?,
            admission: AdmissionMetrics::new(&options, &registry)?,
            reviews: AtomicUsize::new(0),
            own: OwnMetrics::new(&registry)?,
            streams: StreamFamilies::new(&registry)?,
            source: source::SourceMeters::default(),
            registry,
            options,
        })
    }

    /// Sets the log of streams for outputs other than that of the access log.
    #[must_use]
    pub fn with_stream_log(self, stream_log: AccessLog) -> Self {
        Self { stream_log, ..self }
    }

    /// Sets the queue of the program log, whose dropped lines are counted.
    #[must_use]
    pub fn with_program_log(self, program_log: AccessLog) -> Self {
        Self { program_log, ..self }
    }

    /// The meters of a target of streams; `protocol` is `tcp`, `udp` or `tls`.
    pub(crate) fn stream_meters(&self, protocol: &str, service: &ServiceRef) -> StreamMeters {
        self.streams.meters(protocol, service)
    }

    /// Removes the series of a target of streams.
    pub(crate) fn forget_stream_meters(&self, protocol: &str, service: &ServiceRef) {
        self.streams.forget(protocol, service);
    }

    /// Counts a UDP datagram that could not be sent.
    pub(crate) fn datagram_dropped(&self) {
        self.streams.dropped();
    }

    /// Counts a UDP session that was ended to admit another one.
    pub(crate) fn udp_session_evicted(&self) {
        self.streams.evicted();
    }

    /// Writes the line of a stream.
    pub(crate) fn log_stream(&self, settings: &GlobalSettings, record: &StreamRecord<'_>) {
        let log = &settings.stream.log;
        if !log.enabled {
            return;
        }
        if log.output == settings.access_log.output {
            self.access_log.send(|out| record.write_line(&log.format, out));
        } else {
            self.stream_log.send_apart(|out| record.write_line(&log.format, out));
        }
    }

    /// Returns the request metrics, if they are enabled.
    pub fn requests(&self) -> Option<&Arc<RequestMeters>> {
        self.requests.as_ref()
    }

    /// Counts a new client connection and returns its number.
    pub fn connection_opened(&self) -> u64 {
        self.connections.open.fetch_add(1, Relaxed);
        self.connections.handled.fetch_add(1, Relaxed) + 1
    }

    /// Counts the end of a client connection.
    pub fn connection_closed(&self) {
        self.connections.open.fetch_sub(1, Relaxed);
    }

    /// Counts an idle connection that was closed to admit a new one.
    pub fn connection_reclaimed(&self) {
        self.connections.reclaimed.fetch_add(1, Relaxed);
    }

    /// Counts an accepted connection that was closed before anything was read:
    /// `max-worker-connections` was reached, or the connection waited too long.
    pub fn connection_refused(&self) {
        self.connections.refused.fetch_add(1, Relaxed);
    }

    /// Returns the page of nginx's `stub_status`.
    pub fn status_page(&self) -> String {
        self.connections.status_page()
    }

    /// Counts a TLS handshake that failed before a request could be read.
    pub fn handshake_failed(&self) {
        self.own.handshake_failures.inc();
    }

    /// Counts a connection that was closed because of its PROXY protocol header.
    pub(crate) fn proxy_protocol_refused(&self, fault: ProxyProtocolFault) {
        let reason = match fault {
            ProxyProtocolFault::Untrusted => "untrusted",
            ProxyProtocolFault::Missing => "missing",
            ProxyProtocolFault::Malformed => "malformed",
            ProxyProtocolFault::Late => "late",
        };
        self.own.proxy_protocol_refused.with_label_values(&[reason]).inc();
    }

    /// Counts a request that was read.
    pub(crate) fn request_began(&self) {
        let requests = self.connections.requests.here();
        requests.all.fetch_add(1, Relaxed);
        requests.open.fetch_add(1, Relaxed);
    }

    /// Counts the end of a request, completed or aborted.
    pub(crate) fn request_ended(&self) {
        self.connections.requests.here().open.fetch_sub(1, Relaxed);
    }

    /// Counts a request that could not be read and is answered with `status`.
    pub(crate) fn request_refused(&self, status: StatusCode) {
        self.own.refused_requests.with_label_values(&[status.as_str()]).inc();
    }

    /// Counts a request whose expression reached its step limit.
    pub(crate) fn step_limit_reached(&self) {
        self.own.step_limits.inc();
    }

    /// Counts an authorisation subrequest without a usable response.
    pub(crate) fn authorisation_failed(&self) {
        self.own.authorisation_failures.inc();
    }

    /// Counts a request to a rule with a web application firewall.
    pub(crate) fn inspected(&self, outcome: InspectionOutcome) {
        let meters = &self.own.inspected;
        match outcome {
            InspectionOutcome::Passed => meters.passed.inc(),
            InspectionOutcome::Denied => meters.denied.inc(),
            InspectionOutcome::Closed => meters.closed.inc(),
            InspectionOutcome::Uninspected => meters.uninspected.inc(),
        }
    }

    /// Counts the copy of a request by its result.
    pub(crate) fn mirrored(&self, outcome: MirrorOutcome) {
        let meters = &self.own.mirrored;
        match outcome {
            MirrorOutcome::Answered => meters.answered.inc(),
            MirrorOutcome::Failed => meters.failed.inc(),
            MirrorOutcome::Dropped => meters.dropped.inc(),
        }
    }

    /// Counts a request of a rule with a cache by its outcome.
    pub(crate) fn cached(&self, status: CacheStatus) {
        self.own.cached[status as usize].inc();
    }

    /// Counts a retry at another endpoint after a failed attempt.
    pub(crate) fn retried(&self) {
        self.own.retries.inc();
    }

    /// Records an applied change. `whole` states that no part of it was refused. `hash` is equal
    /// for equal configurations.
    pub(crate) fn applied(&self, generation: Generation, took: Duration, whole: bool, hash: u64) {
        self.own.apply.observe(took.as_secs_f64());
        self.own.generation.set(i64::try_from(generation.0).unwrap_or(i64::MAX));
        self.controller.applied(whole, hash);
    }

    /// Records a review of the validating webhook.
    pub fn reviewed(&self, sample: &ReviewSample<'_>) {
        // The number of reviews limits the number of series.
        self.admission.reviewed(sample, self.reviews.fetch_add(1, Relaxed));
    }

    /// Records whether this replica is the leader of an election.
    pub fn leads(&self, election: &str, leads: bool) {
        self.controller.leads(election, leads);
    }

    /// Records that the translation recomputed `count` nodes of a kind (`host`, `pool`, ...).
    pub fn nodes_recomputed(&self, node: &str, count: u64) {
        self.own.nodes_recomputed.with_label_values(&[node]).inc_by(count);
    }

    /// Sets the number of skipped objects per unsupported kind. Kinds come from user input, so only
    /// a limited number have a label of their own; the others share one.
    pub fn skipped_objects<'k>(&self, kinds: impl IntoIterator<Item = (&'k str, u64)>) {
        self.own.skipped.reset();
        let mut shown = 0;
        for (kind, count) in kinds {
            let fits = shown < SKIPPED_KINDS && kind.len() <= SKIPPED_KIND;
            shown += usize::from(fits);
            let kind = if fits { kind } else { "_" };
            self.own.skipped.with_label_values(&[kind]).add(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Records the number of replicas that limits apply to together, and of those that are heard.
    pub(crate) fn set_replicas(&self, known: u32, heard: u32) {
        self.own.set_replicas(known, heard);
    }

    /// Returns the counters of the exchange with other replicas.
    pub(crate) fn limit_use(&self) -> LimitUse {
        self.own.limit_use.clone()
    }

    /// Counts a new problem.
    pub(crate) fn problem_appeared(&self, problem: &Problem) {
        self.own.problems_of(problem).iter().for_each(IntGauge::inc);
    }

    /// Removes a resolved problem from the counts.
    pub(crate) fn problem_resolved(&self, problem: &Problem) {
        self.own.problems_of(problem).iter().for_each(IntGauge::dec);
    }

    /// Adds metrics for the connection to the source of the configuration. `ask` is called at each
    /// scrape. Only the first call has an effect.
    pub fn watch_source(&self, ask: impl Fn() -> SourceContact + Send + Sync + 'static) {
        self.source.watch(Box::new(ask));
    }

    /// Returns all metrics in Prometheus' text format.
    pub(crate) fn text(&self, families: &[MetricFamily]) -> Result<String, TelemetryError> {
        Ok(TextEncoder::new().encode_to_string(families)?)
    }

    /// Returns all metrics in Prometheus' protobuf format, with native histograms and exemplars.
    pub(crate) fn protobuf(&self, families: &[MetricFamily]) -> Vec<u8> {
        let meters = self.requests.clone();
        let details =
            meters.map(|meters| RequestCollector::new(meters, &self.options).details()).unwrap_or_default();
        protobuf::encode(families, &details)
    }

    /// Returns all metrics, including those computed from the arguments.
    pub(crate) fn gather<'a>(
        &self,
        endpoints: HealthCounts,
        checked: &HealthCheckResults,
        memory: MemoryUse,
        exports: OtelCounts,
        certificates: impl Iterator<Item = HostCertificate<'a>>,
        orphans: &BTreeSet<Orphan<'_>>,
    ) -> Result<Vec<MetricFamily>, TelemetryError> {
        let HealthCounts { healthy, ejected, failing } = endpoints;
        for (health, count) in [("healthy", healthy), ("ejected", ejected), ("failing", failing)] {
            self.own.endpoints.with_label_values(&[health]).set(count as i64);
        }
        for (log, counter) in
            [(&self.access_log, &self.own.log_dropped), (&self.program_log, &self.own.program_log_dropped)]
        {
            counter.inc_by(log.dropped().saturating_sub(counter.get()));
        }
        let mut families = self.registry.gather();
        families.extend(certificates::families(&self.options, certificates)?);
        families.extend(checks::families(checked)?);
        families.extend(memory::families(memory)?);
        families.extend(otel::families(exports)?);
        families.extend(orphans::families(&self.options, orphans)?);
        families.extend(self.source.families()?);
        families.retain(|family| !family.get_metric().is_empty());
        families.sort_by(|one, other| one.name().cmp(other.name()));
        Ok(families)
    }
}

/// Returns name, help and constant labels of a metric of the reference.
fn reference_opts(options: &TelemetryOptions, name: &str, help: &str) -> Opts {
    Opts::new(format!("nginx_ingress_controller_{name}"), help)
        .const_label("controller_namespace", &options.controller_namespace)
        .const_label("controller_class", &options.controller_class)
        .const_label("controller_pod", &options.controller_pod)
}

#[cfg(test)]
mod tests;
