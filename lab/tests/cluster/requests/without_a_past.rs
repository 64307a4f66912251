//! The API server returns with a compacted history and without streaming lists: every watch
//! relists.

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use serde_json::json;
use sluice_lab::control_plane::ApiOptions;
use sluice_lab::harness::load::{Load, LoadTarget};
use sluice_lab::harness::{TestClass, own};
use sluice_lab::lab::Options;

const HOST: &str = "web.example";

#[test]
fn an_api_server_without_a_past_or_streaming_lists_loses_no_request() {
    own(Options::default().settings, async |cluster, lab| {
        let class = TestClass::graceful_web(cluster, 2, 3).await?;
        let gateway = class.gateway(cluster, &[]).await?;
        cluster.served(gateway.http, HOST, 200).await?;
        let load = Load::new(cluster, gateway.http, [LoadTarget::new(HOST, "web")]).start().await?;
        let change = async |name: &str, replicas: u32| -> Result<()> {
            let host = format!("{name}.example");
            cluster.apply(&class.ingress(name, &host, "web")).await?;
            cluster.served(gateway.http, &host, 200).await?;
            cluster.merge::<Deployment>("web", json!({"spec": {"replicas": replicas}})).await?;
            cluster.available("web", i32::try_from(replicas)?).await?;
            let pods = cluster.pods("app=web").await?;
            let before = load.so_far();
            load.until("all Pods to answer", |tally| {
                let staying = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
                staying.map(ResourceExt::name_any).all(|pod| tally.by(&pod) > before.by(&pod))
            })
            .await
        };
        lab.expire_resource_versions().await?;
        change("expired", 3).await?;
        lab.stop_api()?;
        lab.start_api(ApiOptions { streaming_lists: false }).await?;
        change("no-streaming", 4).await?;
        lab.expire_resource_versions().await?;
        change("streaming", 2).await?;
        load.stop("API server restarted 3 times: expired watches, streaming lists off and on")
            .await?
            .none_failed()
    });
}
