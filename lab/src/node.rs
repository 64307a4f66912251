//! The Pod runner: one process per node. It registers the node, watches the Pods bound to it and
//! runs each of them ([`pod`]) as plain processes.
//!
//! A starting node first ends the remaining processes of its predecessor: a Pod's processes are
//! children of one runner and cannot be taken over.

pub mod address_pool;
pub mod board;
pub mod container;
pub mod environment;
mod grpc_health;
pub mod health;
pub mod hook;
pub mod launch;
pub mod log_files;
pub mod log_server;
pub mod pod;
pub mod pod_state;
pub mod probe;
pub mod registration;
pub mod response;
pub mod server;
pub mod status;
pub mod stop;
pub mod streams;
pub mod volume_files;
pub mod volumes;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::addresses::NodeIndex;
use crate::client::{Again, connect};
use crate::layout::{LabSettings, Layout};
use crate::network;
use crate::process::Process;
use address_pool::AddressPool;

/// State shared by all tasks of a node.
pub struct NodeContext {
    /// The lab's paths.
    pub layout: Layout,
    /// The settings of the lab.
    pub settings: LabSettings,
    /// The number of this node.
    pub index: NodeIndex,
    /// The API client with this node's identity.
    pub client: Client,
    addresses: Mutex<AddressPool>,
    pods: Mutex<HashMap<String, Worker>>,
}

/// The desired state of a Pod.
#[derive(Clone, Debug)]
pub struct Desired {
    /// The Pod as last received.
    pub pod: Arc<Pod>,
    /// Whether the object was deleted without a grace period.
    pub gone: bool,
}

/// The handle on the task that runs a Pod.
struct Worker {
    namespace: String,
    name: String,
    desired: watch::Sender<Desired>,
}

/// Runs a node until its process is ended.
///
/// # Errors
/// Returns an error if the node cannot be set up.
pub async fn run(layout: Layout, index: NodeIndex) -> Result<()> {
    let settings = layout.settings()?;
    sweep(&layout, index)?;
    let client = connect(&layout.kubeconfig(&index.name())).await?;
    let node = Arc::new(NodeContext {
        addresses: Mutex::new(AddressPool::new(index)),
        pods: Mutex::default(),
        layout,
        settings,
        index,
        client,
    });
    let server = tokio::spawn(server::serve(server::listen(&node).await?, node.clone()));
    registration::register(&node).await?;
    info!(node = index.name(), "ready");
    watch_pods(&node).await;
    server.abort();
    Ok(())
}

impl NodeContext {
    /// Returns the folder of a Pod.
    pub fn pod_dir(&self, uid: &str) -> PathBuf {
        self.layout.pods(self.index).join(uid)
    }

    /// Returns the folder of the Pod with this name that runs here.
    pub fn running_pod_dir(&self, namespace: &str, name: &str) -> Option<PathBuf> {
        let pods = lock(&self.pods);
        let (uid, _) = pods.iter().find(|(_, w)| w.namespace == namespace && w.name == name)?;
        Some(self.pod_dir(uid))
    }

    /// Returns the Pod addresses of this node.
    pub fn addresses(&self) -> MutexGuard<'_, AddressPool> {
        lock(&self.addresses)
    }

    /// Processes a Pod object from the API, and starts the Pod if it is new.
    fn apply(self: &Arc<Self>, pod: Pod) {
        let Some(uid) = pod.uid() else { return };
        let mut pods = lock(&self.pods);
        if let Some(worker) = pods.get(&uid) {
            worker.desired.send_replace(Desired { pod: Arc::new(pod), gone: false });
            return;
        }
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) && pod.metadata.deletion_timestamp.is_none() {
            return;
        }
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let (desired, wanted) = watch::channel(Desired { pod: Arc::new(pod), gone: false });
        pods.insert(uid.clone(), Worker { namespace, name, desired });
        let node = self.clone();
        tokio::spawn(async move {
            pod::run(node.clone(), wanted).await;
            lock(&node.pods).remove(&uid);
        });
    }

    /// Records that the Pod's object was deleted.
    fn gone(&self, uid: &str) {
        if let Some(worker) = lock(&self.pods).get(uid) {
            worker.desired.send_modify(|desired| desired.gone = true);
        }
    }
}

async fn watch_pods(node: &Arc<NodeContext>) {
    let selector = format!("spec.nodeName={}", node.index.name());
    let config = watcher::Config::default().fields(&selector).timeout(60);
    let mut events = pin!(watcher(Api::<Pod>::all(node.client.clone()), config).backoff(Again));
    let mut listed = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(pod)) => {
                listed.extend(pod.uid());
                node.apply(pod);
            }
            Ok(watcher::Event::InitDone) => {
                let known: Vec<String> = lock(&node.pods).keys().cloned().collect();
                known.iter().filter(|uid| !listed.contains(*uid)).for_each(|uid| node.gone(uid));
            }
            Ok(watcher::Event::Apply(pod)) => node.apply(pod),
            Ok(watcher::Event::Delete(pod)) => {
                if let Some(uid) = pod.uid() {
                    node.gone(&uid);
                }
            }
            Err(error) => warn!(%error, "watching Pods"),
        }
    }
}

/// Ends and removes the remains of this node's predecessor.
fn sweep(layout: &Layout, index: NodeIndex) -> Result<()> {
    for process in containers(layout, index) {
        process.end(Duration::ZERO)?;
    }
    let namespaces = network::on_node(layout, index);
    for process in network::processes(&namespaces) {
        process.end(Duration::ZERO)?;
    }
    for netns in &namespaces {
        network::delete(netns)?;
    }
    let pods = layout.pods(index);
    if pods.exists() {
        fs::remove_dir_all(&pods)?;
    }
    Ok(fs::create_dir_all(&pods)?)
}

/// Returns the recorded container processes of a node that are running.
pub fn containers(layout: &Layout, index: NodeIndex) -> Vec<Process> {
    let Ok(pods) = fs::read_dir(layout.pods(index)) else { return Vec::new() };
    pods.flatten().flat_map(|pod| pod_containers(&pod.path())).collect()
}

/// Returns the recorded container processes of a Pod's folder that are running.
pub fn pod_containers(pod_dir: &Path) -> Vec<Process> {
    let Ok(records) = fs::read_dir(pod_dir.join("processes")) else { return Vec::new() };
    records.flatten().filter_map(|record| Process::read(&record.path())).filter(|p| p.is_alive()).collect()
}

/// Locks data that is consistent at all times, so poisoning is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
