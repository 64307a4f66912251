//! Client connections and current requests. They are counted once and exported under the names of
//! the reference (`nginx_process_*`) and Sluice's own names.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use super::error::TelemetryError;
use super::options::TelemetryOptions;
use crate::process::per_worker::{Padded, PerWorker};

/// The counters, read at each scrape.
#[derive(Debug, Default)]
pub(super) struct Connections {
    pub(super) open: Padded<AtomicI64>,
    /// Accepted connections that were served.
    pub(super) handled: Padded<AtomicU64>,
    /// Accepted connections that were closed immediately.
    pub(super) refused: Padded<AtomicU64>,
    /// Idle connections that were closed to admit new ones.
    pub(super) reclaimed: Padded<AtomicU64>,
    pub(super) requests: PerWorker<WorkerRequests>,
}

/// Requests that one worker has counted.
#[derive(Debug, Default)]
pub(super) struct WorkerRequests {
    /// Current requests. Negative for a worker on which more requests ended than started; only the
    /// sum over all workers is meaningful.
    pub(super) open: AtomicI64,
    pub(super) all: AtomicU64,
}

/// What the counters amount to at one moment.
pub(super) struct Counted {
    pub(super) active: i64,
    /// Current requests.
    pub(super) writing: i64,
    pub(super) accepted: u64,
    handled: u64,
    pub(super) refused: u64,
    pub(super) requests: u64,
}

impl Connections {
    pub(super) fn read(&self) -> Counted {
        let writing = self.requests.all().map(|requests| requests.open.load(Relaxed)).sum::<i64>().max(0);
        let requests = self.requests.all().map(|requests| requests.all.load(Relaxed)).sum();
        let (handled, refused) = (self.handled.load(Relaxed), self.refused.load(Relaxed));
        let active = self.open.load(Relaxed).max(0);
        Counted { active, writing, accepted: handled + refused, handled, refused, requests }
    }

    /// Writes the page of nginx's `stub_status`, which monitoring programs parse. The spaces at the
    /// ends of lines are part of it (ngx_http_stub_status_module.c).
    pub(super) fn status_page(&self) -> String {
        let Counted { active, writing, accepted, handled, requests, .. } = self.read();
        let waiting = (active - writing).max(0);
        format!(
            "Active connections: {active} \nserver accepts handled requests\n \
             {accepted} {handled} {requests} \nReading: 0 Writing: {writing} Waiting: {waiting} \n"
        )
    }
}

/// Exports [`Connections`] at a scrape.
struct ConnectionsCollector {
    counts: std::sync::Arc<Connections>,
    states: IntGaugeVec,
    totals: IntCounterVec,
    requests: IntCounter,
    open: IntGauge,
    accepted: IntCounter,
    refused: IntCounter,
    reclaimed: IntCounter,
}

pub(super) fn register(
    options: &TelemetryOptions,
    registry: &Registry,
    counts: std::sync::Arc<Connections>,
) -> Result<(), TelemetryError> {
    let reference = |name: &str, help: &str| super::reference_opts(options, name, help);
    registry.register(Box::new(ConnectionsCollector {
        counts,
        states: IntGaugeVec::new(
            reference("nginx_process_connections", "Client connections by state."),
            &["state"],
        )?,
        totals: IntCounterVec::new(
            reference("nginx_process_connections_total", "Client connections accepted and handled."),
            &["state"],
        )?,
        requests: IntCounter::with_opts(reference("nginx_process_requests_total", "Requests read."))?,
        open: IntGauge::with_opts(Opts::new("sluice_connections_open", "Client connections now."))?,
        accepted: IntCounter::with_opts(Opts::new(
            "sluice_connections_accepted_total",
            "Client connections accepted, including refused ones.",
        ))?,
        refused: IntCounter::with_opts(Opts::new(
            "sluice_connections_refused_total",
            "Client connections closed unread: no connection was idle at the limit of \
             max-worker-connections or open files, or the gateway was overloaded.",
        ))?,
        reclaimed: IntCounter::with_opts(Opts::new(
            "sluice_connections_reclaimed_total",
            "Idle client connections closed to admit new ones at the limit of max-worker-connections or \
             open files.",
        ))?,
    }))?;
    Ok(())
}

impl Collector for ConnectionsCollector {
    fn desc(&self) -> Vec<&Desc> {
        let mut all = self.states.desc();
        all.extend(self.totals.desc());
        all.extend(self.requests.desc());
        all.extend(self.open.desc());
        all.extend(self.accepted.desc());
        all.extend(self.refused.desc());
        all.extend(self.reclaimed.desc());
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Counted { active, writing, accepted, handled, refused, requests } = self.counts.read();
        // A connection without a request counts as waiting: reading a head is not tracked as a
        // separate state. Several requests may share one HTTP/2 connection.
        let states = [
            ("active", active),
            ("reading", 0),
            ("writing", writing),
            ("waiting", (active - writing).max(0)),
        ];
        for (state, value) in states {
            self.states.with_label_values(&[state]).set(value);
        }
        for (state, value) in [("accepted", accepted), ("handled", handled)] {
            raise(&self.totals.with_label_values(&[state]), value);
        }
        raise(&self.requests, requests);
        self.open.set(active);
        raise(&self.accepted, accepted);
        raise(&self.refused, refused);
        raise(&self.reclaimed, self.counts.reclaimed.load(Relaxed));
        let mut all = self.states.collect();
        all.extend(self.totals.collect());
        all.extend(self.requests.collect());
        all.extend(self.open.collect());
        all.extend(self.accepted.collect());
        all.extend(self.refused.collect());
        all.extend(self.reclaimed.collect());
        all
    }
}

/// Concurrent scrapes may both raise the counter; the later one corrects it.
fn raise(counter: &IntCounter, value: u64) {
    counter.reset();
    counter.inc_by(value);
}
