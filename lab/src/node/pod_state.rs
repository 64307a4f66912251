//! The state of a Pod and of its containers.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus};

/// The inputs of a Pod's status.
#[derive(Clone, Debug)]
pub struct PodState {
    /// The Pod's addresses. Empty until its network exists.
    pub addresses: Vec<IpAddr>,
    /// When the node received the Pod.
    pub accepted: Timestamp,
    /// Why the containers cannot be started yet.
    pub obstacle: Option<String>,
    /// Whether all init containers are complete.
    pub initialized: bool,
    /// The init containers.
    pub init: Vec<ContainerState>,
    /// The containers.
    pub containers: Vec<ContainerState>,
}

/// The state of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerState {
    /// Its name.
    pub name: String,
    /// Its image as given in the Pod.
    pub image: String,
    /// Its phase.
    pub phase: ContainerPhase,
    /// The end of its previous run.
    pub last: Option<Ended>,
    /// Number of restarts.
    pub restarts: i32,
    /// Whether its readiness probe passes.
    pub ready: bool,
    /// Whether its startup probe has passed.
    pub started: bool,
}

/// The phase of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerPhase {
    /// Waiting, for a reason in Kubernetes' terms, with a message.
    Waiting(&'static str, Option<String>),
    /// Running since this time.
    Running(Timestamp),
    /// Ended, finally or until it is restarted.
    Ended(Ended),
}

/// The end of a container's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The exit code, or 128 plus the signal's number.
    pub code: i32,
    /// The signal, if one ended the process.
    pub signal: Option<i32>,
    /// Start time.
    pub began: Timestamp,
    /// End time.
    pub ended: Timestamp,
}

impl ContainerState {
    pub(super) fn new(container: &Container, earlier: Option<&ContainerStatus>) -> Self {
        let ran = |status: &ContainerStatus| {
            status.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
        };
        Self {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            phase: ContainerPhase::Waiting("ContainerCreating", None),
            last: None,
            restarts: earlier.map_or(0, |status| status.restart_count + i32::from(ran(status))),
            ready: false,
            started: false,
        }
    }
}

impl ContainerPhase {
    pub(super) fn has_begun(&self) -> bool {
        !matches!(self, Self::Waiting(..))
    }
}
