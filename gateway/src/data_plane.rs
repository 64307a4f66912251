//! The data plane as a whole: starts its threads, applies deltas, and shuts down.

pub mod workers;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use sluice_config::{Delta, Report};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::connection::drain::Drain;
use crate::data_plane::workers::Workers;
use crate::firewall::Agent;
use crate::listen::Listeners;
use crate::location::LocationFiles;
use crate::process::critical_task;
use crate::state::State;
use crate::state::apply::apply;
use crate::telemetry::Telemetry;
use crate::tls::{CertificateStore, TlsError, stapling};
use crate::worker::engine_choice::EngineChoice;

/// Time limit for sending the last spans and log records.
const LAST_EXPORT: Duration = Duration::from_secs(2);

/// A running data plane.
pub struct DataPlane {
    state: Arc<State>,
    certificates: Arc<CertificateStore>,
    listeners: Arc<Listeners>,
    drain: Arc<Drain>,
    /// `None` once they have been stopped.
    workers: Mutex<Option<Workers>>,
    /// Send spans and log records.
    exporters: Mutex<Option<[JoinHandle<()>; 2]>>,
}

/// Why the data plane could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The fallback certificate could not be made.
    #[error("cannot make the self-signed fallback certificate: {0}")]
    Certificates(#[from] TlsError),
    /// A worker could not be started.
    #[error("cannot start a worker: {0}; check the limits of processes, open files and memory")]
    Workers(#[from] io::Error),
}

impl DataPlane {
    /// Starts `workers` threads, which serve with `engine` once a complete state has been applied.
    /// Reports that no delta requested, such as ejected endpoints, arrive at the receiver. Call it
    /// on a Tokio runtime.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(
        workers: usize,
        engine: EngineChoice,
        telemetry: Arc<Telemetry>,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Report>), StartError> {
        let (reporter, reports) = mpsc::unbounded_channel();
        let report = Arc::new(move |report| {
            // The receiver may be dropped already.
            let _ = reporter.send(report);
        });
        let certificates = CertificateStore::new()?;
        let state = State::new(telemetry, report);
        let weak_state = Arc::downgrade(&state);
        state.telemetry.access_log.on_fault(move |fault| {
            if let Some(state) = weak_state.upgrade() {
                state.problems.set_log_fault("access", fault);
            }
        });
        let weak_state = Arc::downgrade(&state);
        state.telemetry.stream_log.on_fault(move |fault| {
            if let Some(state) = weak_state.upgrade() {
                state.problems.set_log_fault("stream", fault);
            }
        });
        let (listeners, drain) = (Listeners::new(), Drain::new());
        let workers = Workers::start(&state, &certificates, &listeners, &drain, engine, workers)?;
        let (maintained, reporting_state) = (listeners.clone(), state.clone());
        critical_task::spawn(&state.reporter, "binding listeners", async move {
            let changed = |reports: Vec<Report>| {
                reporting_state.set_listening(|| maintained.status());
                reports.into_iter().for_each(&*reporting_state.reporter);
            };
            maintained.maintain(changed).await;
        });
        let followed = state.clone();
        critical_task::spawn(&state.reporter, "reports of proxies", async move {
            followed.follow_distrusted_proxies().await;
        });
        critical_task::spawn(&state.reporter, "OCSP responses", stapling::run(certificates.clone()));
        let followed = state.clone();
        critical_task::spawn(&state.reporter, "reports of expressions", async move {
            followed.follow_step_limits().await;
        });
        critical_task::spawn(&state.reporter, "limits across replicas", state.clone().share_limits());
        if let Some(prober) = state.registry.take_prober() {
            critical_task::spawn(&state.reporter, "health checks", prober.run());
        }
        let exporters = [
            critical_task::spawn(&state.reporter, "sending spans", state.clone().export(state.spans.clone())),
            critical_task::spawn(
                &state.reporter,
                "sending log records",
                state.clone().export(state.log_records.clone()),
            ),
        ];
        let (workers, exporters) = (Mutex::new(Some(workers)), Mutex::new(Some(exporters)));
        Ok((Self { state, certificates, listeners, drain, workers, exporters }, reports))
    }

    /// Sets the folder for request bodies that are too large for memory; the default is the
    /// system's folder for temporary files.
    pub fn keep_bodies_in(&self, folder: PathBuf) {
        self.state.disk.set_path(folder);
    }

    /// Sets the folder for bodies of stored responses, and empties it. If it is unusable, a problem
    /// says so, and responses are stored in memory only. Blocks. Call it once, before the first
    /// delta, on a Tokio runtime.
    pub fn keep_responses_in(&self, folder: &Path) {
        match self.state.cache.keep_files_in(folder) {
            Ok(faults) => {
                let follow = self.state.clone().follow_cache_folder(faults);
                critical_task::spawn(&self.state.reporter, "watching the folder of stored responses", follow);
            }
            Err(fault) => self.state.problems.set_cache_folder_fault(Some(&fault)),
        }
    }

    /// Sets the files of the GeoIP2 databases, which are read while `use-geoip2` is set. Call it
    /// once, before the first delta, on a Tokio runtime.
    pub fn read_locations(&self, files: LocationFiles) {
        self.state.locations.set_files(files);
        let follow = self.state.clone().follow_location_files();
        critical_task::spawn(&self.state.reporter, "reading GeoIP2 databases", follow);
    }

    /// Sets the agent of web application firewalls and the time limit for each of its decisions.
    /// Call it once, before the first delta, on a Tokio runtime.
    pub fn inspect_with(&self, agent: SocketAddr, time_limit: Duration) {
        if self.state.firewall_agent.set(Agent::new(agent, time_limit)).is_ok() {
            let deliver = self.state.clone().deliver_directives();
            critical_task::spawn(&self.state.reporter, "sending directives of firewalls", deliver);
        }
    }

    /// Returns the state that all workers share.
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Applies a delta. Returns its acknowledgement, and the changes of sockets. Must be called
    /// from one task, in order.
    pub fn apply(&self, delta: &Delta) -> (Report, Vec<Report>) {
        let acknowledged = apply(&self.state, delta, &*self.certificates);
        let binds = self.listeners.apply(&delta.groups);
        self.state.set_listening(|| self.listeners.status());
        if delta.complete {
            self.listeners.open();
        }
        (acknowledged, binds)
    }

    /// Shuts down: health checks fail at once, and connections are accepted for `grace`. Then
    /// sockets and idle connections are closed, and running requests finish within
    /// `worker-shutdown-timeout`. Returns false if some were cut off.
    pub async fn end(&self, grace: Duration) -> bool {
        self.state.readiness.set_draining();
        self.drain.begin();
        tokio::time::sleep(grace).await;
        self.listeners.close();
        self.drain.close();
        let time_limit = self.state.settings().worker_shutdown_timeout;
        let whole = self.drain.ended(time_limit).await;
        // Requests that still run are dropped, which writes their lines to the access log.
        if let Some(workers) = self.workers.lock().unwrap_or_else(PoisonError::into_inner).take() {
            workers.stop();
        }
        self.state.spans.close();
        self.state.log_records.close();
        let exporters = self.exporters.lock().unwrap_or_else(PoisonError::into_inner).take();
        if timeout(LAST_EXPORT, join_all(exporters.into_iter().flatten())).await.is_err() {
            tracing::warn!("the collector did not accept the last spans or log records in time");
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::{Bind, BindProtocol, Change, GroupId, ListenerGroup};

    use super::*;
    use crate::telemetry::{AccessLog, TelemetryOptions};

    #[tokio::test]
    async fn it_is_not_ready_without_listeners() {
        let telemetry = Telemetry::new(TelemetryOptions::default(), AccessLog::none()).unwrap();
        let (plane, _reports) = DataPlane::start(1, EngineChoice::Direct, Arc::new(telemetry)).unwrap();
        let readiness = &plane.state().readiness;
        plane.apply(&Delta { settings: Some(Arc::default()), ..Delta::default() });
        // The state after a complete delta whose sockets are not bound yet.
        apply(plane.state(), &Delta { complete: true, ..Delta::default() }, &*plane.certificates);
        assert!(readiness.is_complete() && !readiness.is_ready(), "clients would be refused");
        let bind = Bind {
            addresses: vec![[127, 0, 0, 1].into()],
            port: 0,
            declared_port: 80,
            protocol: BindProtocol::Http,
            source: "--http-port".into(),
        };
        let group = ListenerGroup {
            id: GroupId::ingress(),
            binds: vec![bind],
            listeners: Vec::new(),
            required: true,
            stream: None,
        };
        let groups = vec![Change::Put(GroupId::ingress(), Arc::new(group))];
        plane.apply(&Delta { complete: true, groups, ..Delta::default() });
        assert!(readiness.is_ready());
        assert!(plane.end(Duration::ZERO).await);
    }

    #[tokio::test]
    async fn a_delta_without_news_publishes_no_problems() {
        let telemetry = Telemetry::new(TelemetryOptions::default(), AccessLog::none()).unwrap();
        let (plane, _reports) = DataPlane::start(1, EngineChoice::Direct, Arc::new(telemetry)).unwrap();
        plane.apply(&Delta { complete: true, ..Delta::default() });
        let before = plane.state().problems.all();
        plane.apply(&Delta { settings: Some(Arc::default()), ..Delta::default() });
        assert!(
            Arc::ptr_eq(&before, &plane.state().problems.all()),
            "all were sorted and copied at each delta"
        );
        // An address of another machine cannot be bound.
        let bind = Bind {
            addresses: vec![[192, 0, 2, 1].into()],
            port: 18080,
            declared_port: 80,
            protocol: BindProtocol::Http,
            source: "--http-port".into(),
        };
        let group = ListenerGroup {
            id: GroupId::ingress(),
            binds: vec![bind],
            listeners: Vec::new(),
            required: true,
            stream: None,
        };
        let groups = vec![Change::Put(GroupId::ingress(), Arc::new(group))];
        plane.apply(&Delta { groups, ..Delta::default() });
        assert_eq!(plane.state().problems.all().len(), 1, "there is news");
        assert!(plane.end(Duration::ZERO).await);
    }
}
