//! A Kubernetes API as a source.
//!
//! One watch per kind, all on one thread. `watcher` runs one watch and emits events; `reader`
//! combines them into batches. No objects are kept here, only names and versions (`known`), and
//! only the fields that pruning reads are decoded (`wire`). Every request passes a pacer, which
//! delays requests after failures and records whether the API responds (`api_health`). `failure`
//! defines the possible failures with their problems.
//!
//! An object that was listed stays, whatever happens to the watch or the access right: it is
//! removed only when the API reports its deletion.
//!
//! While the API is unavailable, the last state stays in force without a time limit.

mod access;
mod api_health;
pub(crate) mod client;
mod cluster;
mod failure;
mod known;
mod lines;
mod pacer;
mod plan;
pub(crate) mod postponed;
mod reader;
mod referenced_objects;
mod relist;
mod watcher;
mod wire;

use std::sync::Arc;
use std::thread;

use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::input::Input;
use crate::options::Options;
use crate::panic_guard::PanicGuard;
use crate::store::{Needs, Prune, References};
pub use access::{AccessError, ApiAccess};
use api_health::ApiHealth;
pub use api_health::{ApiHealthState, Away};
pub use cluster::Cluster;
use reader::Reader;
use watcher::Watcher;

/// Maximum number of concurrent requests for single objects.
const FETCHES: usize = 8;

/// A running source. Ends when dropped.
#[derive(Debug)]
pub struct KubeSource {
    references: mpsc::UnboundedSender<References>,
    api_health: watch::Receiver<ApiHealthState>,
    cluster: Cluster,
    /// Dropping it ends the thread.
    _stop: watch::Sender<()>,
}

impl KubeSource {
    /// Starts to read and watch. Returns at once: the source waits for an API that does not
    /// respond.
    ///
    /// # Errors
    /// `access` cannot be used.
    pub async fn start(
        access: ApiAccess,
        options: &Options,
        inputs: mpsc::Sender<Input>,
    ) -> Result<Self, AccessError> {
        let (references, referred) = mpsc::unbounded_channel();
        let (stop, stopped) = watch::channel(());
        let (started, outcome) = oneshot::channel();
        let api_health = ApiHealth::new();
        let seen = api_health.subscribe();
        let (scopes, needs) = (plan::plan(options), Needs::nothing());
        let prune = Prune::with(options, needs.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let work = async move {
            let (sender, news) = mpsc::channel(reader::MANY);
            let made = access.config().await.and_then(|config| {
                client::of_watches(&config, &api_health).map(|client| (client, Cluster::of(&config)))
            });
            let (client, cluster) = match made {
                Ok(made) => made,
                Err(error) => {
                    // Fails only during shutdown.
                    let _ = started.send(Err(error));
                    return;
                }
            };
            let _ = started.send(Ok(cluster));
            let fetches = Arc::new(Semaphore::new(FETCHES));
            let guard = PanicGuard::default();
            let watcher = |(number, scope)| Watcher {
                fetches: fetches.clone(),
                client: client.clone(),
                api_health: api_health.clone(),
                prune: prune.clone(),
                events: sender.clone(),
                number,
                scope,
                _guard: guard.clone(),
            };
            let watchers = scopes.into_iter().enumerate().map(watcher).collect();
            let reader = Reader::new(watchers, needs, api_health.subscribe());
            tokio::select! {
                () = reader.run(news, referred, inputs, stopped) => {}
                () = guard.panicked() => tracing::error!("a watch of the Kubernetes API has panicked"),
            }
        };
        thread::Builder::new().name("kubernetes".into()).spawn(move || runtime.block_on(work))?;
        let cluster = match outcome.await {
            Ok(outcome) => outcome?,
            Err(_) => return Err(std::io::Error::other("the thread of the Kubernetes API ended").into()),
        };
        Ok(Self { references, api_health: seen, cluster, _stop: stop })
    }

    /// Returns the channel for changed references to Secrets and ConfigMaps.
    pub fn references(&self) -> mpsc::UnboundedSender<References> {
        self.references.clone()
    }

    /// Returns the identity of the cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns whether the API responds.
    pub fn api_health(&self) -> watch::Receiver<ApiHealthState> {
        self.api_health.clone()
    }
}
