//! Fault injection for a whole lab. Faults of a single connection are in [`crate::wire`].

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::addresses::{ETCD_PORT, NodeIndex, PodAddress};
use crate::control_plane::{self, ApiOptions};
use crate::exchange::exchange;
use crate::lab::Lab;
use crate::network;
use crate::node;
use crate::process::{self, Process};

impl Lab {
    /// Kills the API server. Pods keep running; all watches are cut.
    ///
    /// # Errors
    /// Returns an error if it cannot be ended.
    pub fn stop_api(&self) -> Result<()> {
        if let Some(server) = process::running(self.layout(), control_plane::API) {
            server.end(Duration::ZERO)?;
        }
        Ok(())
    }

    /// Starts the API server again and waits until it is ready.
    ///
    /// # Errors
    /// Returns an error if it is already running, or does not become ready.
    pub async fn start_api(&self, options: ApiOptions) -> Result<Client> {
        if process::running(self.layout(), control_plane::API).is_some() {
            bail!("the API server runs: stop it first");
        }
        control_plane::start_api(self.layout(), self.settings(), options)?;
        self.api_ready().await
    }

    /// Restarts the controllers and the scheduler. After a long outage running ones may retry up to
    /// a minute after the API server is back; tests need not wait for that.
    ///
    /// # Errors
    /// Returns an error if they cannot be ended or started.
    pub fn restart_controllers(&self) -> Result<()> {
        for role in [control_plane::CONTROLLERS, control_plane::SCHEDULER] {
            if let Some(process) = process::running(self.layout(), role) {
                process.end(Duration::ZERO)?;
            }
        }
        control_plane::start_controllers(self.layout(), self.settings())
    }

    /// Restarts the API server with a compacted etcd: a watch from any earlier version gets 410
    /// Gone.
    ///
    /// # Errors
    /// Returns an error if etcd or the API server refuses.
    pub async fn expire_resource_versions(&self) -> Result<Client> {
        self.stop_api()?;
        // Adds a revision first, so that even the latest version known to a client is compacted.
        let put = json!({"key": "c2x1aWNlLWxhYg==", "value": ""});
        let answer = etcd("/v3/kv/put", &put).await?;
        let revision = answer.pointer("/header/revision").context("etcd has answered without a revision")?;
        etcd("/v3/kv/compaction", &json!({"revision": revision, "physical": true})).await?;
        self.start_api(ApiOptions::default()).await
    }

    /// Copies the cluster's store for [`Self::restore_store`]. The API server is down meanwhile.
    ///
    /// # Errors
    /// Returns an error if etcd or the API server does not end or come back, or the copy cannot be
    /// made.
    pub async fn back_up_store(&self) -> Result<Client> {
        self.with_store_down(copy).await
    }

    /// Replaces the store with the copy: later writes are lost, and versions continue from the
    /// copy's.
    ///
    /// # Errors
    /// Returns an error if there is no copy. See also [`Self::back_up_store`].
    pub async fn restore_store(&self) -> Result<Client> {
        self.with_store_down(|store, backup| {
            fs::remove_dir_all(store)?;
            copy(backup, store)
        })
        .await
    }

    async fn with_store_down(&self, work: impl FnOnce(&Path, &Path) -> io::Result<()>) -> Result<Client> {
        self.stop_api()?;
        if let Some(etcd) = process::running(self.layout(), control_plane::ETCD) {
            etcd.end(Duration::ZERO)?;
        }
        let store = self.layout().etcd();
        let backup = store.with_extension("backup");
        work(&store, &backup).with_context(|| format!("cannot copy {}", store.display()))?;
        control_plane::start_etcd(self.layout())?;
        self.start_api(ApiOptions::default()).await
    }

    /// Freezes a node with all its processes: connections stay open and the kernel accepts new
    /// ones, but nothing responds.
    ///
    /// # Errors
    /// Returns an error if a process cannot be stopped.
    pub fn freeze_node(&self, node: NodeIndex) -> Result<()> {
        self.signal_node(node, Signal::STOP)
    }

    /// Resumes a frozen node.
    ///
    /// # Errors
    /// Returns an error if a process cannot be continued.
    pub fn thaw_node(&self, node: NodeIndex) -> Result<()> {
        self.signal_node(node, Signal::CONT)
    }

    /// Kills a node's Pod runner and restarts it. Its Pods end and are restarted with other
    /// addresses.
    ///
    /// # Errors
    /// Returns an error if it cannot be ended or started.
    pub fn crash_node(&self, node: NodeIndex) -> Result<()> {
        if let Some(runner) = process::running(self.layout(), &node.name()) {
            runner.end(Duration::ZERO)?;
        }
        self.start_node(node)?;
        Ok(())
    }

    /// Kills the processes of a Pod's containers, like a crash or the kernel's OOM killer. The Pod
    /// object stays, and the containers are restarted.
    ///
    /// # Errors
    /// Returns an error if there is no such Pod, or nothing of it runs.
    pub async fn kill_pod(&self, client: &Client, namespace: &str, name: &str) -> Result<()> {
        self.kill(&pod(client, namespace, name).await?)
    }

    /// Like [`Self::kill_pod`], without the API, which may be down.
    ///
    /// # Errors
    /// Returns an error if nothing of the Pod runs.
    pub fn kill(&self, pod: &Pod) -> Result<()> {
        for container in self.containers(pod)? {
            container.signal(Signal::KILL)?;
        }
        Ok(())
    }

    /// Suspends the processes of a Pod's containers, as a program that hangs: the kernel accepts
    /// connections, but nothing responds. Returns once all their threads have stopped.
    ///
    /// # Errors
    /// Returns an error if there is no such Pod, or nothing of it runs.
    pub async fn suspend_pod(&self, client: &Client, namespace: &str, name: &str) -> Result<()> {
        for container in self.containers(&pod(client, namespace, name).await?)? {
            container.signal(Signal::STOP)?;
            while container.is_alive() && !container.is_suspended() {
                sleep(Duration::from_millis(1)).await;
            }
        }
        Ok(())
    }

    /// Unplugs a Pod's network, or plugs it in again: packets are lost without a response, as when
    /// a machine dies.
    ///
    /// # Errors
    /// Returns an error if there is no such Pod, or it has no network of its own.
    pub async fn plug_pod(&self, client: &Client, namespace: &str, name: &str, plugged: bool) -> Result<()> {
        let address = pod(client, namespace, name).await?.status.and_then(|status| status.pod_ip);
        let address: Ipv4Addr =
            address.with_context(|| format!("{namespace}/{name} has no address"))?.parse()?;
        network::plug_pod(self.layout(), PodAddress::from(address), plugged)
    }

    /// Returns the processes of a Pod's containers.
    fn containers(&self, pod: &Pod) -> Result<Vec<Process>> {
        let name = pod.name_any();
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).and_then(NodeIndex::named);
        let node = node.with_context(|| format!("the Pod {name} is on no node"))?;
        let containers = node::pod_containers(&self.layout().pods(node).join(pod.uid().unwrap_or_default()));
        if containers.is_empty() {
            bail!("nothing of the Pod {name} runs");
        }
        Ok(containers)
    }

    fn signal_node(&self, node: NodeIndex, signal: Signal) -> Result<()> {
        let runner = process::running(self.layout(), &node.name());
        let containers = node::containers(self.layout(), node);
        let others = network::processes(&network::on_node(self.layout(), node));
        let all: Vec<Process> = runner.into_iter().chain(containers).chain(others).collect();
        for process in all {
            process.signal(signal)?;
        }
        Ok(())
    }
}

/// Copies a folder with its content.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    // etcd refuses a folder that other users can read.
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&from, &to)?;
        } else {
            fs::copy(from, to)?;
        }
    }
    Ok(())
}

async fn pod(client: &Client, namespace: &str, name: &str) -> Result<Pod> {
    Ok(Api::namespaced(client.clone(), namespace).get(name).await?)
}

/// Calls etcd's JSON interface.
async fn etcd(path: &str, call: &Value) -> Result<Value> {
    let stream =
        TcpStream::connect((Ipv4Addr::LOCALHOST, ETCD_PORT)).await.context("etcd is not reachable")?;
    let request = Request::post(path).header("host", "etcd").body(Bytes::from(call.to_string()))?;
    let answer = exchange(stream, request).await?;
    if !answer.status().is_success() {
        bail!("etcd answered {} to {path}: {}", answer.status(), String::from_utf8_lossy(answer.body()));
    }
    Ok(serde_json::from_slice(answer.body())?)
}
