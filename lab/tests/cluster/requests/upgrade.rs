//! The API server goes down during an upgrade of the gateway: the old Pods serve until it is back.

use std::net::SocketAddr;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use sluice_lab::control_plane::ApiOptions;
use sluice_lab::harness::load::{Load, LoadTarget};
use sluice_lab::harness::{GatewayPods, TestClass, own};
use sluice_lab::lab::Options;

const HOST: &str = "web.example";

#[test]
fn an_api_server_away_during_an_upgrade_loses_no_request() {
    own(Options::default().settings, async |cluster, lab| {
        let class = TestClass::graceful_web(cluster, 2, 3).await?;
        let [controller, name] = class.flags();
        let flags = [&*controller, &*name, "--shutdown-grace-period=3"];
        let gateway = GatewayPods::start(cluster, "gateway", 2, &flags).await?;
        let address = SocketAddr::from((gateway.address, 80));
        cluster.served(address, HOST, 200).await?;
        let before: Vec<String> =
            cluster.pods("app=gateway").await?.iter().map(ResourceExt::name_any).collect();
        let load = Load::new(cluster, address, [LoadTarget::new(HOST, "web")]).start().await?;
        let output = cluster.kubectl().args(["rollout", "restart", "deployment", "gateway"]).output()?;
        ensure!(output.status.success(), "kubectl: {}", String::from_utf8_lossy(&output.stderr));
        cluster
            .until("the first new Pod", async || {
                let pods = cluster.pods("app=gateway").await?;
                Ok(pods.iter().any(|pod| !before.contains(&pod.name_any())).then_some(()))
            })
            .await?;
        // Before the new Pod is ready, so no old one was deleted.
        lab.stop_api()?;
        load.more(1_000).await?;

        let client = lab.start_api(ApiOptions::default()).await?;
        lab.restart_controllers()?;
        let api: Api<Pod> = Api::namespaced(client, &cluster.namespace);
        let labels = ListParams::default().labels("app=gateway");
        cluster
            .until("the upgrade to be over", async || {
                let pods = api.list(&labels).await?.items;
                let is_new = |pod: &Pod| !before.contains(&pod.name_any());
                let ready = pods.iter().filter(|pod| sluice_lab::harness::is_ready(pod)).count();
                Ok((pods.len() == 2 && ready == 2 && pods.iter().all(is_new)).then_some(()))
            })
            .await?;
        cluster.served(address, HOST, 200).await?;
        load.more(200).await?;
        load.stop("API server away during an upgrade of 2 gateway Pods").await?.none_failed()
    });
}
