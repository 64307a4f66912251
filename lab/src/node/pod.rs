//! The lifecycle of one Pod on a node: network, volumes, init containers, containers, and cleanup.

use std::collections::HashMap;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::board::{Board, ContainerPlace, publish};
use super::container::{Life, Restart};
use super::launch::Sandbox;
use super::stop::{Stop, requested};
use super::volumes::Volumes;
use super::{Desired, NodeContext, streams};
use crate::addresses::PodAddress;
use crate::network;

/// A Pod while it is on this node.
struct Stay {
    node: Arc<NodeContext>,
    pod: Arc<Pod>,
    board: Arc<Board>,
    stop: watch::Sender<Stop>,
}

/// Runs a Pod until its object is deleted.
pub async fn run(node: Arc<NodeContext>, desired: watch::Receiver<Desired>) {
    let pod = desired.borrow().pod.clone();
    let stop = watch::Sender::new(Stop::of(&desired.borrow(), Stop::No));
    let relay = tokio::spawn(relay(desired, stop.clone()));
    let board = Board::new(&pod);
    let publisher = tokio::spawn(publish(node.clone(), pod.clone(), board.clone()));
    info!(pod = pod.name_any(), namespace = pod.namespace(), "arrives");
    let stay = Stay { node, pod, board, stop };
    let network = stay.live().await;
    // A Pod whose containers have ended stays until it is deleted.
    requested(&mut stay.stop.subscribe()).await;
    publisher.abort();
    stay.leave(network).await;
    relay.abort();
}

/// Converts the desired state into the time by which the containers must end.
async fn relay(mut desired: watch::Receiver<Desired>, stop: watch::Sender<Stop>) {
    while desired.changed().await.is_ok() {
        let desired = desired.borrow_and_update().clone();
        stop.send_if_modified(|stop| {
            let next = Stop::of(&desired, *stop);
            let changed = next != *stop;
            *stop = next;
            changed
        });
    }
}

impl Stay {
    /// Runs until all containers have ended finally. Returns the network address to release.
    async fn live(&self) -> Option<PodAddress> {
        if *self.stop.borrow() != Stop::No {
            return None;
        }
        let (address, netns, addresses) = match self.network().await {
            Ok(network) => network,
            Err(error) => {
                warn!(pod = self.pod.name_any(), "has no network: {error:#}");
                self.board.update(|state| state.obstacle = Some(format!("no network: {error:#}")));
                return None;
            }
        };
        self.board.update(|state| state.addresses.clone_from(&addresses));
        let dir = self.dir();
        if let Err(error) = streams::record_network(&dir, &netns) {
            warn!(pod = self.pod.name_any(), %error, "no port of it can be forwarded");
        }
        let mut volumes =
            Volumes::new(self.node.clone(), self.pod.clone(), addresses.clone(), dir.join("volumes"));
        let Some(paths) = self.volumes(&mut volumes).await else { return address };
        let sandbox = Arc::new(Sandbox { pod: self.pod.clone(), dir, netns, addresses, volumes: paths });
        tokio::select! {
            () = self.containers(&sandbox) => {}
            never = refresh(volumes) => match never {},
        }
        address
    }

    async fn network(&self) -> Result<(Option<PodAddress>, String, Vec<IpAddr>)> {
        let layout = self.node.layout.clone();
        if self.pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true) {
            return Ok((None, layout.netns(), vec![self.node.index.address().into()]));
        }
        let address = self.node.addresses().take().context("the node has no Pod address left")?;
        let dual_stack = self.node.settings.dual_stack;
        let netns = spawn_blocking(move || network::create_pod(&layout, address, dual_stack)).await??;
        let mut addresses = vec![IpAddr::from(address.v4())];
        addresses.extend(dual_stack.then(|| IpAddr::from(address.v6())));
        Ok((Some(address), netns, addresses))
    }

    /// Waits until every volume can be created. Returns `None` if the Pod ends before that.
    async fn volumes(&self, volumes: &mut Volumes) -> Option<HashMap<String, PathBuf>> {
        let mut stop = self.stop.subscribe();
        let mut wait = Duration::from_millis(50);
        loop {
            match volumes.update().await {
                Ok(paths) => {
                    self.board.update(|state| state.obstacle = None);
                    return Some(paths);
                }
                Err(error) => self.board.update(|state| state.obstacle = Some(format!("{error:#}"))),
            }
            tokio::select! {
                () = sleep(wait) => wait = (wait * 2).min(Duration::from_secs(1)),
                () = requested(&mut stop) => return None,
            }
        }
    }

    /// Runs the init containers in sequence, then all others concurrently until these have ended
    /// finally.
    async fn containers(&self, sandbox: &Arc<Sandbox>) {
        let Some(spec) = self.pod.spec.as_ref() else { return };
        let policy = Restart::of_pod(spec.restart_policy.as_deref());
        let init_policy = if policy == Restart::Never { Restart::Never } else { Restart::OnFailure };
        let sidecar_stop = watch::Sender::new(Stop::No);
        let mut sidecars = Vec::new();
        for (index, container) in spec.init_containers.iter().flatten().enumerate() {
            let place = ContainerPlace::Init(index);
            if container.restart_policy.as_deref() == Some("Always") {
                let life = Life {
                    stop: sidecar_stop.subscribe(),
                    ..self.life(sandbox, container, place, Restart::Always)
                };
                sidecars.push(tokio::spawn(life.live()));
                let mut stop = self.stop.subscribe();
                tokio::select! {
                    () = self.board.wait(|state| state.init[index].started) => {}
                    () = requested(&mut stop) => {}
                }
            } else if !self.life(sandbox, container, place, init_policy).live().await {
                return self.end_sidecars(sidecars, &sidecar_stop).await;
            }
        }
        self.board.update(|state| state.initialized = true);
        let lives = spec.containers.iter().enumerate().map(|(index, container)| {
            self.life(sandbox, container, ContainerPlace::Main(index), policy).live()
        });
        join_all(lives).await;
        self.end_sidecars(sidecars, &sidecar_stop).await;
    }

    /// Ends sidecars (restartable init containers) after the main containers have ended.
    async fn end_sidecars(&self, sidecars: Vec<JoinHandle<bool>>, sidecar_stop: &watch::Sender<Stop>) {
        let mut stop = self.stop.subscribe();
        let mut ended = join_all(sidecars);
        loop {
            let wanted = *stop.borrow_and_update();
            let own = Stop::By(Instant::now() + self.grace());
            sidecar_stop.send_replace(if wanted == Stop::No { own } else { wanted });
            tokio::select! {
                _ = &mut ended => return,
                changed = stop.changed() => if changed.is_err() { return },
            }
        }
    }

    fn life(
        &self,
        sandbox: &Arc<Sandbox>,
        container: &Container,
        place: ContainerPlace,
        restart: Restart,
    ) -> Life {
        Life {
            node: self.node.clone(),
            sandbox: sandbox.clone(),
            container: container.clone(),
            board: self.board.clone(),
            place,
            restart,
            stop: self.stop.subscribe(),
            grace: self.grace(),
        }
    }

    fn grace(&self) -> Duration {
        let seconds =
            self.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }

    fn dir(&self) -> PathBuf {
        self.node.pod_dir(&self.pod.uid().unwrap_or_default())
    }

    /// Releases the Pod's resources and confirms its deletion.
    async fn leave(&self, network: Option<PodAddress>) {
        if let Some(address) = network {
            let netns = self.node.layout.pod_netns(&address.tag());
            let removed = spawn_blocking(move || {
                // A forwarded port would keep the namespace, and with it the Pod's link.
                for process in network::processes(std::slice::from_ref(&netns)) {
                    process.end(Duration::ZERO)?;
                }
                network::delete(&netns)
            })
            .await;
            if let Ok(Err(error)) = removed {
                warn!(pod = self.pod.name_any(), "its network stays: {error:#}");
            }
            self.node.addresses().give_back(address);
        }
        let dir = self.dir();
        if dir.exists()
            && let Err(error) = fs::remove_dir_all(&dir)
        {
            warn!(pod = self.pod.name_any(), %error, "its folder stays");
        }
        self.confirm().await;
        info!(pod = self.pod.name_any(), namespace = self.pod.namespace(), "has left");
    }

    /// Removes the object from the API, which waits for this. The UID protects a later Pod of the
    /// same name.
    async fn confirm(&self) {
        let pods: Api<Pod> =
            Api::namespaced(self.node.client.clone(), &self.pod.namespace().unwrap_or_default());
        let preconditions = Preconditions { uid: self.pod.uid(), resource_version: None };
        let how = DeleteParams::default().grace_period(0).preconditions(preconditions);
        while *self.stop.borrow() != Stop::Now {
            match pods.delete(&self.pod.name_any(), &how).await {
                Ok(_) => return,
                Err(kube::Error::Api(answer)) if answer.is_not_found() || answer.is_conflict() => return,
                Err(error) => {
                    warn!(pod = self.pod.name_any(), %error, "confirming the deletion");
                    sleep(Duration::from_millis(250)).await;
                }
            }
        }
    }
}

/// Keeps mounted Secrets and ConfigMaps up to date while the Pod runs.
async fn refresh(mut volumes: Volumes) -> std::convert::Infallible {
    loop {
        sleep(volumes.period()).await;
        if let Err(error) = volumes.update().await {
            tracing::debug!("a volume keeps its content: {error:#}");
        }
    }
}
