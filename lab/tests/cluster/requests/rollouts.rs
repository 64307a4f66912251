//! Rollouts under load: no request fails, whatever happens to a Deployment.
//!
//! The retry conditions are the gateway's default, `proxy-next-upstream: error timeout`: a GET is
//! sent to the next Pod if one refuses it, breaks off or does not respond; a POST only if nothing
//! of it was sent.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;
use sluice_lab::harness::load::{Load, LoadTarget, Tally};
use sluice_lab::harness::{
    Cluster, GatewayPods, GatewayProcess, TestClass, in_lab, is_ready, restarts, shared,
};

const HOST: &str = "web.example";

/// Starts a gateway that serves the Deployment `web`.
async fn served(cluster: &Cluster, class: &TestClass) -> Result<GatewayProcess> {
    let gateway = class.gateway(cluster, &[]).await?;
    cluster.served(gateway.http, HOST, 200).await?;
    Ok(gateway)
}

fn restart(cluster: &Cluster, deployment: &str) -> Result<()> {
    let output = cluster.kubectl().args(["rollout", "restart", "deployment", deployment]).output()?;
    ensure!(output.status.success(), "kubectl: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Returns the names of the Pods that are not terminating.
async fn names(cluster: &Cluster, label: &str) -> Result<Vec<String>> {
    let pods = cluster.pods(label).await?;
    let staying = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(staying.map(ResourceExt::name_any).collect())
}

#[test]
fn a_rolling_restart_loses_no_request() {
    shared(async |cluster| {
        let gateway = served(cluster, &TestClass::graceful_web(cluster, 3, 3).await?).await?;
        let before = names(cluster, "app=web").await?;
        let load = Load::new(cluster, gateway.http, [LoadTarget::new(HOST, "web")]).start().await?;
        restart(cluster, "web")?;
        cluster.available("web", 3).await?;
        let after = names(cluster, "app=web").await?;
        ensure!(after.iter().all(|name| !before.contains(name)), "a Pod was not replaced");
        cluster.endpoints("web", |all| all.len() == 3 && all.iter().all(|e| e.ready)).await?;
        load.until("every new Pod to answer", |tally| after.iter().all(|pod| tally.by(pod) >= 20)).await?;
        load.stop("rolling restart of 3 Pods").await?.none_failed()
    });
}

/// Pods without `preStop` close their port before all clients have received the change. Retries of
/// the gateway handle idempotent requests, and all requests that are refused by the closed port.
#[test]
fn a_rolling_restart_without_a_hook_loses_no_request_that_may_be_repeated() {
    shared(async |cluster| {
        let gateway = served(cluster, &TestClass::web(cluster, 3).await?).await?;
        let load = Load::new(cluster, gateway.http, [LoadTarget::new(HOST, "web")]).start().await?;
        for _ in 0..2 {
            restart(cluster, "web")?;
            cluster.available("web", 3).await?;
        }
        let after = names(cluster, "app=web").await?;
        load.until("every new Pod to answer", |tally| after.iter().all(|pod| tally.by(pod) >= 20)).await?;
        let tally = load.stop("2 rolling restarts of 3 Pods without preStop").await?;
        only_posts_failed(&tally)
    });
}

#[test]
fn a_deployment_scaled_to_twenty_and_back_loses_no_request() {
    shared(async |cluster| {
        let gateway = served(cluster, &TestClass::graceful_web(cluster, 1, 3).await?).await?;
        let load = Load::new(cluster, gateway.http, [LoadTarget::new(HOST, "web")]).start().await?;
        cluster.merge::<Deployment>("web", json!({"spec": {"replicas": 20}})).await?;
        cluster.available("web", 20).await?;
        load.until("every Pod to answer", |tally| tally.pods.len() == 20).await?;
        cluster.merge::<Deployment>("web", json!({"spec": {"replicas": 1}})).await?;
        cluster.available("web", 1).await?;
        cluster.endpoints("web", |all| all.len() == 1 && all[0].ready).await?;
        load.more(200).await?;
        load.stop("a Deployment scaled 1 to 20 to 1").await?.none_failed()
    });
}

/// The Pods respond slowly, so that requests are in flight when they are killed.
#[test]
fn a_pod_killed_without_grace_loses_no_request_that_may_be_repeated() {
    in_lab(async |cluster, lab| {
        let gateway = served(cluster, &TestClass::web(cluster, 3).await?).await?;
        let slow = LoadTarget::new(HOST, "web").path("/?delay_ms=30");
        let gets = Load::new(cluster, gateway.http, [slow]).idempotent().start().await?;
        let both = Load::new(cluster, gateway.http, [LoadTarget::new(HOST, "web")]).rate(50).start().await?;
        for pod in names(cluster, "app=web").await? {
            lab.kill_pod(&cluster.client, &cluster.namespace, &pod).await?;
            let back = |pod: &Pod| restarts(pod) == 1 && is_ready(pod);
            cluster.wait(&pod, "started again", back).await?;
            let answered = gets.so_far().by(&pod);
            gets.until("an answer of the Pod", |tally| tally.by(&pod) > answered).await?;
            gets.settled().await?;
        }
        for pod in names(cluster, "app=web").await?.iter().take(2) {
            cluster.api::<Pod>().delete(pod, &DeleteParams::default().grace_period(0)).await?;
            cluster.available("web", 3).await?;
            gets.more(100).await?;
            gets.settled().await?;
        }
        gets.stop("3 Pods killed and 2 deleted without grace, GETs of 30 ms").await?.none_failed()?;
        only_posts_failed(&both.stop("the same, GETs and POSTs").await?)
    });
}

/// A POST that a killed Pod had received must not be sent to another one, so its client gets an
/// error.
fn only_posts_failed(tally: &Tally) -> Result<()> {
    let expected = |what: &str| what.contains("status 502");
    let wrong =
        tally.failures.iter().find(|failure| failure.method != Method::POST || !expected(&failure.what));
    ensure!(wrong.is_none() && tally.failed <= tally.failures.len() as u64, "{tally}");
    Ok(())
}

#[test]
fn a_rolling_restart_of_the_gateway_loses_no_request() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 2).await?;
        let [controller, name] = class.flags();
        let flags = [&controller, &name, "--shutdown-grace-period=3"];
        let gateway = GatewayPods::start(cluster, "gateway", 2, &flags).await?;
        let address = SocketAddr::from((gateway.address, 80));
        cluster.served(address, HOST, 200).await?;
        let before = names(cluster, "app=gateway").await?;
        let load = Load::new(cluster, address, [LoadTarget::new(HOST, "web")]).start().await?;
        restart(cluster, "gateway")?;
        cluster.available("gateway", 2).await?;
        let after = names(cluster, "app=gateway").await?;
        ensure!(after.iter().all(|name| !before.contains(name)), "a Pod was not replaced");
        cluster
            .until("the old Pods to have gone", async || {
                let pods = cluster.pods("app=gateway").await?;
                Ok((pods.len() == 2).then_some(()))
            })
            .await
            .context("a gateway that was asked to end")?;
        load.more(200).await?;
        load.stop("rolling restart of 2 gateway Pods").await?.none_failed()
    });
}
