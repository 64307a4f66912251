//! The API server is down for a minute: serving continues, and missed changes are applied
//! afterwards.

use std::time::Duration;

use anyhow::{Context, ensure};
use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use sluice_lab::addresses::NodeIndex;
use sluice_lab::control_plane::ApiOptions;
use sluice_lab::harness::load::{Load, LoadTarget};
use sluice_lab::harness::{TestClass, own};
use sluice_lab::lab::Options;
use tokio::time::{Instant, sleep_until};

const HOST: &str = "web.example";

/// Duration of the outage.
const OUTAGE: Duration = Duration::from_secs(60);

/// The gateway receives no changes without an API, while Pods die. One is killed repeatedly and
/// returns at its address after growing waits; a whole node dies permanently. Passive ejection and
/// retries handle both during the whole outage.
#[test]
fn an_api_server_away_for_a_minute_loses_no_request_while_pods_die() {
    own(Options::default().settings, async |cluster, lab| {
        let class = TestClass::graceful_web(cluster, 4, 3).await?;
        let gateway = class.gateway(cluster, &[]).await?;
        cluster.served(gateway.http, HOST, 200).await?;
        let pods = cluster.pods("app=web").await?;
        let (dying_node, other) = (NodeIndex::new(1), NodeIndex::new(2).map(NodeIndex::name));
        let dying_node = dying_node.context("there is a first node")?;
        let killed =
            pods.iter().find(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) == other);
        let killed = killed.context("all Pods are on the first node")?;
        let load =
            Load::new(cluster, gateway.http, [LoadTarget::new(HOST, "web")]).idempotent().start().await?;

        let end = Instant::now() + OUTAGE;
        lab.stop_api()?;
        load.more(200).await?;
        for _ in 0..3 {
            // Requests in flight may have responded on behalf of a Pod that was just killed.
            cluster.until("the Pod to run", async || Ok(lab.kill(killed).ok())).await?;
            let answered = load.so_far().by(&killed.name_any());
            load.until("the killed Pod to be back", |tally| tally.by(&killed.name_any()) > answered).await?;
        }
        // The Pods end with their runner; a new runner has no list of Pods until the API is back.
        lab.crash_node(dying_node)?;
        sleep_until(end).await;
        let alive = cluster.get(gateway.health, "health", "/livez").await?.status();
        ensure!(alive == StatusCode::OK, "/livez answers {alive} while the API server is away");

        let client = lab.start_api(ApiOptions::default()).await?;
        lab.restart_controllers()?;
        cluster.apply(&class.ingress("late", "late.example", "web")).await?;
        cluster.served(gateway.http, "late.example", 200).await?;
        let api: Api<Pod> = Api::namespaced(client, &cluster.namespace);
        let present = api.list(&ListParams::default().labels("app=web")).await?.items;
        cluster.available("web", 4).await?;
        let before = load.so_far();
        load.until("every Pod to answer at its new address", |tally| {
            present.iter().all(|pod| tally.by(&pod.name_any()) > before.by(&pod.name_any()) + 10)
        })
        .await?;
        load.stop("API server away for 60 s, 3 kills, a dead node").await?.none_failed()
    });
}
