//! The Kubernetes API stops, restarts, loses its history, refuses and hangs; requests are still
//! served.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::networking::v1::Ingress;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use sluice_lab::control_plane::ApiOptions;
use sluice_lab::harness::{Cluster, GatewayProcess, TestClass, own, shared};
use sluice_lab::lab::Options;
use sluice_lab::wire::Behaviour;
use tokio::time::sleep;

const AWAY: &str = "sluice_kubernetes_api_disconnected_seconds";

async fn is_away(cluster: &Cluster, gateway: &GatewayProcess, away: bool) -> Result<()> {
    let what = format!("the gateway to take the API for away: {away}");
    cluster
        .until(&what, async || {
            let seconds = gateway.metric(cluster, AWAY).await?.context("no metric")?;
            Ok(((seconds > 0.0) == away).then_some(()))
        })
        .await
}

async fn still_serves(cluster: &Cluster, gateway: &GatewayProcess, host: &str) -> Result<()> {
    ensure!(cluster.get(gateway.http, host, "/").await?.status() == 200);
    for path in ["/livez", "/healthz"] {
        ensure!(gateway.health_status(cluster, path).await? == 200, "{path}");
    }
    Ok(())
}

/// Returns how often the log contains a text.
fn said(gateway: &GatewayProcess, text: &str) -> usize {
    gateway.output().matches(text).count()
}

/// Checks that the log has a text once.
async fn says_once(cluster: &Cluster, gateway: &GatewayProcess, text: &str) -> Result<()> {
    gateway.await_output(cluster, text).await?;
    ensure!(said(gateway, text) == 1, "{}", gateway.output());
    Ok(())
}

/// Returns the number of recomputed nodes since the start.
async fn computed(cluster: &Cluster, gateway: &GatewayProcess) -> Result<f64> {
    gateway.metric(cluster, "sluice_nodes_recomputed_total").await?.context("no metric")
}

/// Like [`Cluster::move_ingress`], over a separate connection, because the test's own may be cut.
async fn rename(ingresses: &Api<Ingress>, name: &str, host: &str) -> Result<()> {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let paths = json!([{"path": "/", "pathType": "Prefix", "backend": backend}]);
    let rules = json!([{"host": host, "http": {"paths": paths}}]);
    let patch = Patch::Merge(json!({"spec": {"rules": rules}}));
    ingresses.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[test]
fn an_api_server_that_is_away_changes_nothing_and_is_logged_once() {
    own(Options::default().settings, async |cluster, lab| {
        let class = TestClass::web(cluster, 1).await?;
        let gateway = class.gateway(cluster, &[]).await?;
        ensure!(gateway.metric(cluster, AWAY).await? == Some(0.0));
        lab.stop_api()?;
        is_away(cluster, &gateway, true).await?;
        still_serves(cluster, &gateway, "web.example").await?;
        // After several rounds of attempts there is still one log line about it.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(6) {
            still_serves(cluster, &gateway, "web.example").await?;
            sleep(Duration::from_millis(200)).await;
        }
        says_once(cluster, &gateway, "has not answered since").await?;
        ensure!(gateway.problems(cluster).await?.contains("has not answered since"));

        let client = lab.start_api(ApiOptions::default()).await?;
        let ingresses: Api<Ingress> = Api::namespaced(client, &cluster.namespace);
        let back = Instant::now();
        rename(&ingresses, "web", "new.example").await?;
        cluster.served(gateway.http, "new.example", 200).await?;
        let took = back.elapsed();
        ensure!(took < Duration::from_secs(20), "{took:?} until the first change was served");
        is_away(cluster, &gateway, false).await?;
        says_once(cluster, &gateway, "resolved: ").await?;
        ensure!(gateway.problems(cluster).await?.trim() == "[]");
        Ok(())
    });
}

#[test]
fn expired_versions_recompute_nothing_and_lose_nothing() {
    own(Options::default().settings, async |cluster, lab| {
        let class = TestClass::web(cluster, 1).await?;
        cluster.apply(&class.ingress("gone", "gone.example", "web")).await?;
        cluster.apply(&class.ingress("late", "late.example", "web")).await?;
        let (wire, gateway) = class.wired_gateway(cluster).await?;
        let before = computed(cluster, &gateway).await?;
        lab.expire_resource_versions().await?;
        is_away(cluster, &gateway, false).await?;
        // The watches work again when a change arrives, and only that change is computed.
        let client = sluice_lab::client::connect(&cluster.kubeconfig()).await?;
        let ingresses: Api<Ingress> = Api::namespaced(client, &cluster.namespace);
        rename(&ingresses, "late", "later.example").await?;
        cluster.served(gateway.http, "later.example", 200).await?;
        let after = computed(cluster, &gateway).await?;
        ensure!(after - before <= 4.0, "{before} nodes computed before, {after} after");

        // Deletes and creates objects while the gateway has no watch, and compacts the history of
        // etcd.
        wire.set(Behaviour::Refuse);
        wire.cut();
        ingresses.delete("gone", &DeleteParams::default()).await?;
        rename(&ingresses, "late", "latest.example").await?;
        let client = lab.expire_resource_versions().await?;
        let ingresses: Api<Ingress> = Api::namespaced(client, &cluster.namespace);
        ensure!(ingresses.get_opt("gone").await?.is_none());
        still_serves(cluster, &gateway, "gone.example").await?;
        wire.set(Behaviour::Pass);
        cluster.served(gateway.http, "latest.example", 200).await?;
        cluster.served(gateway.http, "gone.example", 404).await?;
        cluster.served(gateway.http, "later.example", 404).await?;
        still_serves(cluster, &gateway, "web.example").await
    });
}

#[test]
fn a_server_without_streaming_lists_is_listed_in_pages() {
    own(Options::default().settings, async |cluster, lab| {
        let class = TestClass::web(cluster, 1).await?;
        // More than one page of Ingresses.
        let many: Vec<String> =
            (0..260).map(|n| class.ingress(&format!("n{n}"), &format!("n{n}.example"), "web")).collect();
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("many.yaml");
        std::fs::write(&file, many.join("---\n"))?;
        let made = cluster.kubectl().args(["create", "-f"]).arg(&file).output()?;
        ensure!(made.status.success(), "{made:?}");
        lab.stop_api()?;
        let client = lab.start_api(ApiOptions { streaming_lists: false }).await?;
        let gateway = class.gateway(cluster, &["--v=3"]).await?;
        gateway.await_output(cluster, "no streaming lists").await?;
        for host in ["n0.example", "n259.example"] {
            still_serves(cluster, &gateway, host).await?;
        }
        ensure!(gateway.problems(cluster).await?.trim() == "[]");
        let ingresses: Api<Ingress> = Api::namespaced(client, &cluster.namespace);
        rename(&ingresses, "n0", "new.example").await?;
        cluster.served(gateway.http, "new.example", 200).await?;
        Ok(())
    });
}

#[test]
fn cut_connections_are_renewed_without_a_storm() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let (wire, gateway) = class.wired_gateway(cluster).await?;
        for n in 0..5 {
            wire.cut();
            let host = format!("cut-{n}.example");
            cluster.move_ingress("web", &host).await?;
            cluster.served(gateway.http, &host, 200).await?;
        }
        // Closes every connection at once for a while: few attempts, and requests are served
        // throughout.
        let before = wire.taken();
        wire.set(Behaviour::Refuse);
        wire.cut();
        is_away(cluster, &gateway, true).await?;
        sleep(Duration::from_secs(5)).await;
        let attempts = wire.taken() - before;
        // Five watches with growing waits, from 50 ms to 2 s.
        ensure!((5..=80).contains(&attempts), "{attempts} connections in about six seconds");
        still_serves(cluster, &gateway, "cut-4.example").await?;
        wire.set(Behaviour::Pass);
        cluster.move_ingress("web", "back.example").await?;
        cluster.served(gateway.http, "back.example", 200).await?;
        Ok(())
    });
}

#[test]
fn a_silent_peer_is_noticed_when_a_bookmark_is_missing() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let (wire, gateway) = class.wired_gateway(cluster).await?;
        let before = wire.taken();
        wire.set(Behaviour::Freeze);
        let frozen = Instant::now();
        cluster.move_ingress("web", "new.example").await?;
        cluster.until("new connections", async || Ok((wire.taken() > before).then_some(()))).await?;
        let noticed = frozen.elapsed();
        ensure!(noticed < Duration::from_secs(85), "{noticed:?}");
        is_away(cluster, &gateway, true).await?;
        still_serves(cluster, &gateway, "web.example").await?;
        wire.set(Behaviour::Pass);
        cluster.served(gateway.http, "new.example", 200).await?;
        is_away(cluster, &gateway, false).await
    });
}

#[test]
fn a_start_without_an_api_waits_for_it() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let (wire, kubeconfig) = cluster.api_wire().await?;
        wire.set(Behaviour::Refuse);
        let gateway = class.begin_gateway(cluster, &kubeconfig, &[])?;
        is_away(cluster, &gateway, true).await?;
        ensure!(gateway.health_status(cluster, "/healthz").await? == 500, "ready without an API");
        ensure!(gateway.health_status(cluster, "/livez").await? == 200);
        says_once(cluster, &gateway, "has not answered since").await?;
        wire.set(Behaviour::Pass);
        gateway.ready(cluster).await?;
        cluster.served(gateway.http, "web.example", 200).await?;
        Ok(())
    });
}
