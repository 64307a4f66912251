//! The data plane as one thing: what the program starts, tells deltas, and ends.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sluice_config::{Delta, Refusal, Report};
use tokio::sync::mpsc;

use crate::apply::{Certificates, apply};
use crate::connection::bind::Sockets;
use crate::drain::Drain;
use crate::state::State;
use crate::telemetry::Telemetry;
use crate::tls::{CertificateStore, TlsError};
use crate::worker::Serving;

/// A running data plane.
pub struct DataPlane {
    serving: Serving,
    /// Gone when the end has begun to close them.
    sockets: Mutex<Option<Sockets>>,
}

/// Why the data plane could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The fallback certificate could not be made.
    #[error("cannot make the self-signed fallback certificate: {0}")]
    Certificates(#[from] TlsError),
    /// A worker thread could not be started.
    #[error("cannot start a worker thread: {0}; check the limits of processes and memory")]
    Workers(#[from] io::Error),
}

impl DataPlane {
    /// Starts `workers` threads, which serve once a complete state has been applied. Reports that no delta
    /// asked for, such as ejected endpoints, come out of the receiver.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(
        workers: usize,
        telemetry: Arc<Telemetry>,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Report>), StartError> {
        let (reporter, reports) = mpsc::unbounded_channel();
        let sockets = Sockets::new();
        let report = Arc::new(move |report| {
            // Nobody may be listening any more; then nobody wants to know.
            let _ = reporter.send(report);
        });
        let certificates = Arc::new(CertificateStore::new()?);
        let serving = Serving {
            state: State::new(telemetry, report),
            certificates,
            drain: Drain::new(),
            sockets: sockets.subscribe(),
        };
        serving.start_workers(workers)?;
        Ok((Self { serving, sockets: Mutex::new(Some(sockets)) }, reports))
    }

    /// What all workers share.
    pub fn state(&self) -> &Arc<State> {
        &self.serving.state
    }

    /// Puts a delta into force. Gives its acknowledgement, and what changed about sockets. Deltas come from
    /// one caller, in order.
    pub fn apply(&self, delta: &Delta) -> (Report, Vec<Report>) {
        let acknowledged = apply(&self.serving.state, delta, &*self.serving.certificates);
        let mut binds = Vec::new();
        if let Some(sockets) = self.sockets.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            binds = sockets.apply(&delta.groups);
            self.serving.state.readiness.set_bound(sockets.all_bound());
        }
        if delta.complete {
            self.serving.drain.serve();
        }
        (acknowledged, binds)
    }

    /// Ends: health fails at once; new connections are taken for `grace`; then sockets and idle connections
    /// are closed and running requests finished, for at most `worker-shutdown-timeout`. Returns false when
    /// some had to be cut off.
    pub async fn end(&self, grace: Duration) -> bool {
        self.serving.state.readiness.set_draining();
        self.serving.drain.begin();
        tokio::time::sleep(grace).await;
        self.serving.drain.close();
        if let Some(mut sockets) = self.sockets.lock().unwrap_or_else(PoisonError::into_inner).take() {
            sockets.close();
        }
        let patience = self.serving.state.tuning.load().worker_shutdown_timeout;
        self.serving.drain.ended(patience).await
    }
}

impl Certificates for CertificateStore {
    fn apply(&self, delta: &Delta) -> Vec<Refusal> {
        CertificateStore::apply(self, delta)
    }

    fn remove(&self, delta: &Delta) {
        self.apply_removals(delta);
    }
}
