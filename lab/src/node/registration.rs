//! The Node object for the scheduler and `kubectl get nodes`. Posted once: nothing in the lab
//! removes silent nodes, so no renewal is needed.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::NodeContext;
use crate::addresses::NODE_PORT;

/// Creates the node object, or takes over an existing one, and reports the node ready. Waits while
/// the API is down.
///
/// # Errors
/// Returns an error if the API refuses the node.
pub async fn register(node: &NodeContext) -> Result<()> {
    loop {
        match attempt(node).await {
            Err(kube::Error::Api(status)) if !status.is_conflict() && status.code < 500 => {
                return Err(kube::Error::Api(status).into());
            }
            Err(error) => {
                tracing::warn!(%error, "registering the node");
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
            Ok(()) => return Ok(()),
        }
    }
}

async fn attempt(node: &NodeContext) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(node.client.clone());
    let name = node.index.name();
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": architecture,
            "topology.kubernetes.io/region": "lab",
            "topology.kubernetes.io/zone": node.index.zone(),
        }},
    });
    let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
    match nodes.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        other => drop(other?),
    }
    let resources = json!({"cpu": "64", "memory": "256Gi", "ephemeral-storage": "256Gi", "pods": "4000"});
    let now = Timestamp::now();
    let status = json!({"status": {
        "capacity": resources,
        "allocatable": resources,
        "addresses": [
            {"type": "InternalIP", "address": node.index.address().to_string()},
            {"type": "Hostname", "address": name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": NODE_PORT}},
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "LabNodeReady", "message": "the lab's Pod runner is up",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }],
        "nodeInfo": {
            "kubeletVersion": crate::programs::Unit::Kubernetes.version(),
            "operatingSystem": "linux",
            "architecture": architecture,
            "containerRuntimeVersion": concat!("sluice-lab://", env!("CARGO_PKG_VERSION")),
            "osImage": "sluice-lab", "kernelVersion": "", "machineID": "", "systemUUID": "", "bootID": "",
            "kubeProxyVersion": "",
        },
    }});
    nodes.patch_status(&name, &PatchParams::default(), &Patch::Strategic(status)).await?;
    Ok(())
}
