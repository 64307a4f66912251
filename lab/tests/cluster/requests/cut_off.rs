//! The gateway alone loses its connection to the API, once or repeatedly, while the cluster
//! changes.

use anyhow::ensure;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use serde_json::json;
use sluice_lab::harness::load::{Load, LoadTarget};
use sluice_lab::harness::{TestClass, shared};
use sluice_lab::wire::Behaviour;

const HOST: &str = "web.example";

/// During the outage two of three Pods are replaced and two are added.
#[test]
fn a_gateway_cut_off_from_the_api_loses_no_request_and_catches_up() {
    shared(async |cluster| {
        let class = TestClass::graceful_web(cluster, 3, 3).await?;
        let (wire, gateway) = class.wired_gateway(cluster).await?;
        cluster.served(gateway.http, HOST, 200).await?;
        let load =
            Load::new(cluster, gateway.http, [LoadTarget::new(HOST, "web")]).idempotent().start().await?;
        wire.set(Behaviour::Refuse);
        wire.cut();
        for pod in cluster.pods("app=web").await?.iter().take(2) {
            let output = cluster.kubectl().args(["delete", "pod", &pod.name_any()]).output()?;
            ensure!(output.status.success(), "kubectl: {}", String::from_utf8_lossy(&output.stderr));
        }
        cluster.merge::<Deployment>("web", json!({"spec": {"replicas": 5}})).await?;
        cluster.available("web", 5).await?;
        load.more(400).await?;
        let strangers = cluster.pods("app=web").await?;
        wire.set(Behaviour::Pass);
        load.until("the Pods that it has not seen to answer", |tally| {
            strangers.iter().all(|pod| tally.by(&pod.name_any()) > 10)
        })
        .await?;
        load.stop("2 of 3 Pods replaced and 2 added behind the gateway's back").await?.none_failed()
    });
}

#[test]
fn a_relist_storm_loses_no_request_and_no_change() {
    shared(async |cluster| {
        let class = TestClass::graceful_web(cluster, 3, 3).await?;
        let (wire, gateway) = class.wired_gateway(cluster).await?;
        cluster.served(gateway.http, HOST, 200).await?;
        let load = Load::new(cluster, gateway.http, [LoadTarget::new(HOST, "web")]).start().await?;
        for round in 0..15 {
            let taken = wire.taken();
            wire.cut();
            let (name, host) = (format!("storm-{round}"), format!("storm-{round}.example"));
            cluster.apply(&class.ingress(&name, &host, "web")).await?;
            if round % 5 == 4 {
                cluster.served(gateway.http, &host, 200).await?;
            } else {
                cluster
                    .until("the gateway to ask again", async || Ok((wire.taken() > taken + 1).then_some(())))
                    .await?;
            }
        }
        for round in 0..15 {
            cluster.served(gateway.http, &format!("storm-{round}.example"), 200).await?;
        }
        load.stop("15 cuts of every watch").await?.none_failed()
    });
}
