//! The cluster's store is restored from a backup: versions are lower than before, and their content
//! applies.

use anyhow::ensure;
use k8s_openapi::api::networking::v1::Ingress;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use sluice_lab::harness::load::{Load, LoadTarget};
use sluice_lab::harness::{TestClass, own};
use sluice_lab::lab::Options;

const HOST: &str = "web.example";

#[test]
fn a_restored_store_is_followed_and_loses_no_request() {
    own(Options::default().settings, async |cluster, lab| {
        let class = TestClass::web(cluster, 2).await?;
        cluster.apply(&class.ingress("other", "other.example", "web")).await?;
        lab.back_up_store().await?;
        let gateway = class.gateway(cluster, &[]).await?;
        // Changes that the backup lacks, with versions that later changes reach after a while only.
        let client = sluice_lab::client::connect(&cluster.kubeconfig()).await?;
        let ingresses: Api<Ingress> = Api::namespaced(client, &cluster.namespace);
        for n in 0..500 {
            let patch = Patch::Merge(json!({"metadata": {"labels": {"n": n.to_string()}}}));
            ingresses.patch("other", &PatchParams::default(), &patch).await?;
        }
        let moved = |host: &str| {
            let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
            let paths = json!([{"path": "/", "pathType": "Prefix", "backend": backend}]);
            Patch::Merge(json!({"spec": {"rules": [{"host": host, "http": {"paths": paths}}]}}))
        };
        ingresses.patch("other", &PatchParams::default(), &moved("moved.example")).await?;
        cluster.served(gateway.http, "moved.example", 200).await?;

        let load = Load::new(cluster, gateway.http, [LoadTarget::new(HOST, "web")]).start().await?;
        let client = lab.restore_store().await?;
        let ingresses: Api<Ingress> = Api::namespaced(client, &cluster.namespace);
        let rules = ingresses.get("other").await?.spec.and_then(|spec| spec.rules).unwrap_or_default();
        ensure!(
            rules.iter().any(|rule| rule.host.as_deref() == Some("other.example")),
            "not restored: {rules:?}"
        );
        cluster.served(gateway.http, "other.example", 200).await?;
        cluster.served(gateway.http, "moved.example", 404).await?;
        // Changes are followed long before versions reach their earlier values.
        ingresses.patch("other", &PatchParams::default(), &moved("again.example")).await?;
        cluster.served(gateway.http, "again.example", 200).await?;
        load.stop("a store restored from a backup").await?.none_failed()
    });
}
