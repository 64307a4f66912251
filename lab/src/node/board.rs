//! The state of a running Pod and its report to the API: each task writes its results to the board,
//! and one task posts the whole status whenever it differs from the last one posted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tracing::{debug, warn};

use super::pod_state::{ContainerState, PodState};
use super::status::{Transitions, pod_status};
use super::{NodeContext, lock};

/// Identifies a container of a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerPlace {
    /// An init container.
    Init(usize),
    /// A main container.
    Main(usize),
}

/// The shared state of a Pod.
#[derive(Debug)]
pub struct Board {
    state: Mutex<PodState>,
    changed: watch::Sender<()>,
}

impl Board {
    /// Creates the board of a Pod that is new to this node. A container that ran under the node's
    /// predecessor counts as restarted.
    pub fn new(pod: &Pod) -> Arc<Self> {
        let spec = pod.spec.as_ref();
        let status = pod.status.as_ref();
        let states = |containers: &[Container], statuses: Option<&Vec<ContainerStatus>>| {
            containers
                .iter()
                .map(|container| {
                    let earlier = statuses.and_then(|all| all.iter().find(|s| s.name == container.name));
                    ContainerState::new(container, earlier)
                })
                .collect()
        };
        let state = PodState {
            addresses: Vec::new(),
            accepted: Timestamp::now(),
            obstacle: None,
            initialized: false,
            init: states(
                spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default(),
                status.and_then(|status| status.init_container_statuses.as_ref()),
            ),
            containers: states(
                spec.map(|spec| spec.containers.as_slice()).unwrap_or_default(),
                status.and_then(|status| status.container_statuses.as_ref()),
            ),
        };
        Arc::new(Self { state: Mutex::new(state), changed: watch::Sender::new(()) })
    }

    /// Changes the state of the Pod.
    pub fn update(&self, change: impl FnOnce(&mut PodState)) {
        change(&mut lock(&self.state));
        self.changed.send_replace(());
    }

    /// Changes the state of one container.
    pub fn update_container(&self, place: ContainerPlace, change: impl FnOnce(&mut ContainerState)) {
        self.update(|state| {
            let state = match place {
                ContainerPlace::Init(index) => state.init.get_mut(index),
                ContainerPlace::Main(index) => state.containers.get_mut(index),
            };
            if let Some(state) = state {
                change(state);
            }
        });
    }

    /// Waits until the state fulfils a condition.
    pub async fn wait(&self, condition: impl Fn(&PodState) -> bool) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            if condition(&lock(&self.state)) {
                return;
            }
            // Cannot fail: `self` holds the sender.
            let _ = changed.changed().await;
        }
    }
}

/// Posts a Pod's status until the Pod is deleted.
pub async fn publish(node: Arc<NodeContext>, pod: Arc<Pod>, board: Arc<Board>) {
    let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
    let pods: Api<Pod> = Api::namespaced(node.client.clone(), &pod.namespace().unwrap_or_default());
    let mut changed = board.changed.subscribe();
    let mut transitions = Transitions::of(&pod);
    let mut posted = None;
    loop {
        changed.mark_unchanged();
        let status = {
            let state = lock(&board.state);
            pod_status(&pod, &state, node.index.address(), &mut transitions)
        };
        if posted.as_ref() != Some(&status) {
            // The UID prevents a write to a later Pod of the same name.
            let patch = Patch::Strategic(json!({"metadata": {"uid": uid}, "status": status}));
            match pods.patch_status(&name, &PatchParams::default(), &patch).await {
                Ok(_) => posted = Some(status),
                Err(kube::Error::Api(answer)) if answer.is_not_found() || answer.is_conflict() => {
                    debug!(pod = name, "is gone from the API");
                    return;
                }
                Err(error) => {
                    warn!(pod = name, %error, "posting the status");
                    tokio::time::sleep(Duration::from_millis(250)).await;
                    continue;
                }
            }
        }
        if changed.changed().await.is_err() {
            return;
        }
    }
}
