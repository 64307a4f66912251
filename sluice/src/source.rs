//! Source of the configuration: a folder or a cluster.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use sluice_config::Snapshot;
use sluice_controller::cluster::OwnPod;
use sluice_controller::duties::DutyScope;
use sluice_controller::snapshot_file::{self, SnapshotError, SnapshotSettings, SnapshotWriter, Wanted};
use sluice_controller::source::files::FileSource;
use sluice_controller::source::kube::{ApiAccess, ApiHealthState, KubeSource};
use sluice_controller::store::References;
use sluice_controller::{Duties, Input, Options};
use sluice_gateway::telemetry::SourceContact;
use tokio::sync::{mpsc, watch};

use crate::critical_parts::PartToken;
use crate::flags::{ClusterFlags, ServeFlags};

/// A running source. It ends when it is dropped.
pub(crate) enum Source {
    /// `--manifests`.
    Files(FileSource),
    /// A Kubernetes API and the access to it.
    Cluster(KubeSource, ApiAccess),
}

/// Sends feedback of the control plane to the source.
#[derive(Default)]
pub(crate) struct Feedback {
    references: Option<Box<dyn Fn(References) + Send>>,
    snapshot: Option<(PathBuf, Wanted)>,
    /// Whether the source itself, not the snapshot, has provided a complete state.
    complete: Arc<AtomicBool>,
}

impl Source {
    /// Starts the source that the flags select. Also returns the controller's options for it.
    ///
    /// # Errors
    /// The selected source cannot be used, or the flags select none.
    pub(crate) async fn start(flags: &ServeFlags, inputs: mpsc::Sender<Input>) -> Result<(Self, Options)> {
        let options = flags.controller.clone();
        if let Some(folder) = &flags.manifests {
            let source = FileSource::start(folder, &options, inputs)?;
            return Ok((Self::Files(source), options));
        }
        let ClusterFlags { kubeconfig, apiserver_host, certificate_authority, .. } = &flags.cluster;
        let access = ApiAccess::choose(
            kubeconfig.as_deref(),
            apiserver_host.as_deref(),
            certificate_authority.as_deref(),
        )?;
        // The API server sets the default class of Ingresses without one.
        let options = Options { apply_default_class: false, refuse_local_names: true, ..options };
        let source = KubeSource::start(access.clone(), &options, inputs).await?;
        Ok((Self::Cluster(source, access), options))
    }

    /// Returns the feedback channel of the source.
    pub(crate) fn feedback(&self, flags: &ServeFlags) -> Feedback {
        match self {
            Self::Files(source) => {
                Feedback { references: Some(Box::new(source.references())), ..Feedback::default() }
            }
            Self::Cluster(source, _) => Feedback {
                references: Some({
                    let references = source.references();
                    Box::new(move |changes| {
                        // The source may have ended already.
                        let _ = references.send(changes);
                    })
                }),
                snapshot: flags.cluster.snapshot_file.clone().map(|path| {
                    let (cluster, max_age) = (source.cluster().clone(), flags.cluster.snapshot_max_age);
                    (path, Wanted { cluster, max_age })
                }),
                complete: Arc::default(),
            },
        }
    }

    /// Returns the writer of `--snapshot-file`, if the flag is set.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn snapshots(
        &self,
        feedback: &Feedback,
        token: PartToken,
    ) -> std::io::Result<Option<SnapshotWriter>> {
        let (Self::Cluster(source, _), Some((path, wanted))) = (self, &feedback.snapshot) else {
            token.discard();
            return Ok(None);
        };
        let (api_health, complete) = (source.api_health(), feedback.complete.clone());
        let known =
            move || complete.load(Ordering::Relaxed).then(|| api_health.borrow().last_answer).flatten();
        let Wanted { cluster, max_age } = wanted.clone();
        SnapshotWriter::start(SnapshotSettings { path: path.clone(), cluster, known, max_age }, token)
            .map(Some)
    }

    /// Starts the controller's duties if the source is a cluster and this process runs in a Pod. On
    /// other machines nothing is written to the cluster.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) async fn duties(
        &self,
        flags: &ServeFlags,
        inputs: mpsc::WeakSender<Input>,
    ) -> Result<Option<Duties>> {
        let Self::Cluster(_, access) = self else { return Ok(None) };
        let pod =
            OwnPod { name: flags.gateway.pod_name.clone(), namespace: flags.gateway.pod_namespace.clone() };
        if pod.name.is_empty() || pod.namespace.is_empty() {
            tracing::info!(
                "POD_NAME and POD_NAMESPACE are not set, so nothing is written: no Lease, no status, no Events"
            );
            return Ok(None);
        }
        let scope = DutyScope::of(&flags.controller);
        Ok(Some(Duties::start(access.clone(), flags.duties.clone(), pod, scope, inputs).await?))
    }

    /// Returns the state of the connection for metrics; `None` for a folder.
    pub(crate) fn api_health(&self) -> Option<impl Fn() -> SourceContact + Send + Sync + use<>> {
        let Self::Cluster(source, _) = self else { return None };
        let state = source.api_health();
        Some(move || api_health(&state))
    }
}

fn api_health(state: &watch::Receiver<ApiHealthState>) -> SourceContact {
    let state = state.borrow();
    let since = |since: Timestamp| Timestamp::now().duration_since(since);
    SourceContact {
        away: state.away.as_ref().map_or(Duration::ZERO, |away| since(away.since).unsigned_abs()),
        last_answer: state.last_answer.map_or(0, Timestamp::as_second),
    }
}

impl Feedback {
    /// Updates the set of referenced Secrets.
    pub(crate) fn references(&self, changes: References) {
        if let Some(references) = &self.references {
            references(changes);
        }
    }

    /// Records that the served state comes from the source itself.
    pub(crate) fn is_complete(&self) {
        self.complete.store(true, Ordering::Relaxed);
    }

    /// Returns the configuration to serve while the API is unreachable.
    pub(crate) fn startup_snapshot(&self) -> Option<Snapshot> {
        let (path, wanted) = self.snapshot.as_ref()?;
        match snapshot_file::read(path, wanted) {
            Ok((snapshot, at)) => {
                tracing::warn!(
                    path = %path.display(), hosts = snapshot.hosts.len(), confirmed = %at,
                    "the Kubernetes API is away; serving the last configuration from --snapshot-file"
                );
                Some(snapshot)
            }
            Err(error @ SnapshotError::None) => {
                tracing::warn!(path = %path.display(), "the Kubernetes API is away, and of --snapshot-file {error}");
                None
            }
            Err(error) => {
                tracing::error!(
                    path = %path.display(), %error,
                    "the Kubernetes API is away, and --snapshot-file cannot be used; going on without it"
                );
                None
            }
        }
    }
}
