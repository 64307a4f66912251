//! Nodes: one is drained, and requests stay in the gateway's zone.

use std::collections::HashSet;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use sluice_lab::harness::load::{Load, LoadTarget};
use sluice_lab::harness::{Cluster, GatewayPods, TestClass, own};
use sluice_lab::lab::Options;

const HOST: &str = "web.example";

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Returns the Pods of `web` that are not terminating, on a node or on all others.
async fn on(cluster: &Cluster, node: &str, there: bool) -> Result<Vec<String>> {
    let pods = cluster.pods("app=web").await?;
    let staying = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(staying.filter(|pod| (node_of(pod) == Some(node)) == there).map(ResourceExt::name_any).collect())
}

fn drain(cluster: &Cluster, node: &str) -> Result<()> {
    let arguments = ["drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s"];
    let output = cluster.kubectl().args(arguments).output()?;
    ensure!(output.status.success(), "kubectl: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn budget(name: &str) -> String {
    format!(
        "{{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {{name: {name}}}, spec: {{minAvailable: 1, selector: \
         {{matchLabels: {{app: {name}}}}}}}}}"
    )
}

#[test]
fn a_node_that_is_drained_with_a_gateway_on_it_loses_no_request() {
    own(Options::default().settings, async |cluster, _| {
        let class = TestClass::graceful_web(cluster, 4, 3).await?;
        let [controller, name] = class.flags();
        let flags = [&*controller, &*name, "--shutdown-grace-period=3"];
        let gateway = GatewayPods::start(cluster, "gateway", 2, &flags).await?;
        for name in ["web", "gateway"] {
            cluster.apply(&budget(name)).await?;
        }
        let address = SocketAddr::from((gateway.address, 80));
        cluster.served(address, HOST, 200).await?;
        let load = Load::new(cluster, address, [LoadTarget::new(HOST, "web")]).start().await?;
        drain(cluster, "node-1")?;
        for (name, replicas) in [("web", 4), ("gateway", 2)] {
            cluster.available(name, replicas).await?;
            let pods = cluster.pods(&format!("app={name}")).await?;
            ensure!(pods.iter().all(|pod| node_of(pod) != Some("node-1")), "a Pod of {name} has stayed");
        }
        let after = on(cluster, "node-2", true).await?;
        load.until("every Pod to answer", |tally| after.iter().all(|pod| tally.by(pod) > 20)).await?;
        load.stop("a node drained, with Pods and a gateway on it").await?.none_failed()
    });
}

/// The hints are those that Kubernetes' controller writes for `spec.trafficDistribution`.
#[test]
fn requests_stay_in_the_zone_and_leave_it_when_it_has_no_endpoint_left() {
    own(Options::default().settings, async |cluster, _| {
        let class = TestClass::graceful_web(cluster, 4, 3).await?;
        let near = on(cluster, "node-1", true).await?;
        let far = on(cluster, "node-1", false).await?;
        ensure!(!near.is_empty() && !far.is_empty(), "Pods stand on one node only");
        // The account has no right to read Nodes at first.
        let kubeconfig = cluster.account("gateway").await?;
        let reads = [
            "networking.k8s.io/ingressclasses",
            "networking.k8s.io/ingresses",
            "/services",
            "discovery.k8s.io/endpointslices",
            "/secrets",
        ];
        cluster.allow("gateway", true, &reads).await?;
        let flags = ["--enable-topology-aware-routing"];
        let gateway = class.gateway_in(cluster, &["NODE_NAME=node-1"], &kubeconfig, &flags).await?;
        cluster.served(gateway.http, HOST, 200).await?;
        let load = Load::new(cluster, gateway.http, [LoadTarget::new(HOST, "web")]).start().await?;
        let only = async |pods: &[String]| {
            cluster
                .until("the endpoints to be of one zone", async || {
                    let answer = cluster.get(gateway.admin, "localhost", "/backends").await?;
                    let text = std::str::from_utf8(answer.body())?;
                    let all = cluster.pods("app=web").await?;
                    let used = |pod: &&Pod| {
                        let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref());
                        address.is_some_and(|address| text.contains(&format!("{address}:8080")))
                    };
                    let used: HashSet<String> = all.iter().filter(used).map(ResourceExt::name_any).collect();
                    let wanted: HashSet<String> = pods.iter().cloned().collect();
                    ensure!(used == wanted, "{used:?} in place of {wanted:?}");
                    Ok(Some(()))
                })
                .await
        };
        let all: Vec<String> = near.iter().chain(&far).cloned().collect();
        let spread = json!({"spec": {"trafficDistribution": "PreferClose"}});
        cluster.merge::<Service>("web", spread).await?;
        cluster
            .until("the problem of the missing right", async || {
                let problems = gateway.problems(cluster).await?;
                let told = problems.contains("no right to list and watch nodes node-1");
                Ok((told && problems.contains("ZoneUnknown")).then_some(()))
            })
            .await?;
        only(&all).await?;
        cluster.allow("gateway", true, &["/nodes"]).await?;
        only(&near).await?;
        ensure!(gateway.problems(cluster).await?.trim() == "[]");
        let before = load.so_far();
        load.until("the near ones to answer", |tally| {
            near.iter().all(|pod| tally.by(pod) > before.by(pod) + 50)
        })
        .await?;

        // The node moves to another zone.
        let nodes: Api<Node> = Api::all(cluster.client.clone());
        let zone =
            |name: &str| Patch::Merge(json!({"metadata": {"labels": {"topology.kubernetes.io/zone": name}}}));
        let node = nodes.get("node-1").await?;
        let own = node.labels().get("topology.kubernetes.io/zone").context("a zone")?.clone();
        nodes.patch("node-1", &PatchParams::default(), &zone("nowhere")).await?;
        only(&all).await?;
        nodes.patch("node-1", &PatchParams::default(), &zone(&own)).await?;
        only(&near).await?;

        // The zone loses its last endpoint, so endpoints of other zones are used.
        drain(cluster, "node-1")?;
        cluster.available("web", 4).await?;
        let after = on(cluster, "node-2", true).await?;
        only(&after).await?;
        load.until("the others to answer", |tally| after.iter().all(|pod| tally.by(pod) > 20)).await?;
        load.stop("zone-aware routing: right given, zone changed, zone without endpoints")
            .await?
            .none_failed()
    });
}
