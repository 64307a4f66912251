//! Another controller writes the status of an Ingress, too: few writes, no load, and no lost
//! request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::networking::v1::Ingress;
use kube::Api;
use kube::api::{Patch, PatchParams, WatchEvent, WatchParams};
use serde_json::json;
use sluice_lab::harness::load::{Load, LoadTarget};
use sluice_lab::harness::{TestClass, shared, status_of};

const HOST: &str = "web.example";
const OURS: &str = "192.0.2.7";
const THEIRS: &str = "198.51.100.1";

/// Acts as another controller, which writes its address whenever the status has another one. Counts
/// the overwritten values.
async fn fight(api: Api<Ingress>, on: Arc<AtomicBool>, ours: Arc<AtomicU32>) -> Result<()> {
    let how = WatchParams::default().fields("metadata.name=web");
    let mut version = "0".to_owned();
    loop {
        let events = api.watch(&how, &version).await?;
        pin_mut!(events);
        while let Some(Ok(event)) = events.next().await {
            let (WatchEvent::Added(ingress) | WatchEvent::Modified(ingress)) = event else { continue };
            version = ingress.metadata.resource_version.clone().context("a version")?;
            if status_of(&ingress) == [THEIRS] || !on.load(Ordering::SeqCst) {
                continue;
            }
            ours.fetch_add(1, Ordering::SeqCst);
            let patch = Patch::Merge(json!({"status": {"loadBalancer": {"ingress": [{"ip": THEIRS}]}}}));
            api.patch_status("web", &PatchParams::default(), &patch).await?;
        }
    }
}

#[test]
fn a_contested_status_is_written_less_often_and_reported() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 2).await?;
        let environment = ["POD_NAME=a".to_owned(), format!("POD_NAMESPACE={}", cluster.namespace)];
        let environment = environment.each_ref().map(String::as_str);
        let flag = format!("--publish-status-address={OURS}");
        let kubeconfig = cluster.kubeconfig();
        let gateway = class.gateway_in(cluster, &environment, &kubeconfig, &[&flag]).await?;
        cluster.served(gateway.http, HOST, 200).await?;
        let is_ours = |ingress: &Ingress| status_of(ingress) == [OURS];
        cluster.wait::<Ingress>("web", "given the gateway's address", is_ours).await?;
        let load = Load::new(cluster, gateway.http, [LoadTarget::new(HOST, "web")]).start().await?;

        let (on, ours) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU32::new(0)));
        let other = tokio::spawn(fight(cluster.api(), on.clone(), ours.clone()));
        let begin = Instant::now();
        cluster
            .until("the problem of the contested status", async || {
                ensure!(!other.is_finished(), "the other controller has ended");
                Ok(gateway.problems(cluster).await?.contains("StatusContested").then_some(()))
            })
            .await?;
        let (writes, took) = (ours.load(Ordering::SeqCst), begin.elapsed());
        println!("{writes} writes against another controller in {took:?}, which rewrites at once");
        // Waits double: 1, 2, 4, 8 s and so on to a minute. The first write replaces the existing
        // status.
        let most = 3 + (took.as_secs_f64() + 1.0).log2().ceil() as u32;
        ensure!(writes <= most, "{writes} writes in {took:?} are a war");

        on.store(false, Ordering::SeqCst);
        cluster.wait::<Ingress>("web", "given the gateway's address permanently", is_ours).await?;
        other.abort();
        load.more(200).await?;
        load.stop("a status fought over by another controller").await?.none_failed()
    });
}
