//! The gateway's rights are revoked and granted again one by one: listed objects stay served, and
//! missed changes are applied.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use sluice_lab::harness::load::{Load, LoadTarget};
use sluice_lab::harness::{Cluster, GatewayProcess, TestClass, deployment, shared, shows};
use sluice_lab::wire::Wire;
use sluice_testing::certificate::TestCertificate;

const HOST: &str = "web.example";

const RIGHTS: [&str; 7] = [
    "networking.k8s.io/ingressclasses",
    "networking.k8s.io/ingresses",
    "/services",
    "discovery.k8s.io/endpointslices",
    "/secrets",
    "/configmaps",
    "/namespaces",
];

/// Starts a gateway with exactly these rights, and returns it with its wire to the API.
async fn gateway(cluster: &Cluster, class: &TestClass) -> Result<(Wire, GatewayProcess)> {
    let labels = json!({"metadata": {"labels": {"served-by": class.name}}});
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    namespaces.patch(&cluster.namespace, &PatchParams::default(), &Patch::Merge(labels)).await?;
    let map =
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {http-redirect-code: \"302\"}}";
    cluster.apply(map).await?;
    let (wire, kubeconfig) = cluster.wired_account("gateway").await?;
    cluster.allow("gateway", true, &RIGHTS).await?;
    let selector = format!("--watch-namespace-selector=served-by={}", class.name);
    let map = format!("--configmap={}/settings", cluster.namespace);
    let gateway = class.begin_gateway(cluster, &kubeconfig, &[&selector, &map])?;
    gateway.ready(cluster).await?;
    Ok((wire, gateway))
}

async fn lose(cluster: &Cluster, wire: &Wire, gateway: &GatewayProcess, right: &str) -> Result<()> {
    cluster.deny("gateway", true, right).await?;
    wire.cut();
    let (_, resource) = right.split_once('/').context("GROUP/RESOURCE")?;
    cluster
        .until(&format!("the gateway to miss {resource}"), async || {
            let problems = gateway.problems(cluster).await?;
            let missed = problems.contains(&format!("no right to list and watch {resource}"));
            Ok((missed && problems.contains("what was listed before stays in force")).then_some(()))
        })
        .await
}

async fn regain(cluster: &Cluster, gateway: &GatewayProcess, right: &str) -> Result<()> {
    cluster.allow("gateway", true, &[right]).await?;
    cluster
        .until(&format!("{right} to be no problem"), async || {
            Ok((!gateway.problems(cluster).await?.contains("no right to list")).then_some(()))
        })
        .await
}

#[test]
fn a_right_that_is_taken_away_and_given_back_loses_no_request() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 2).await?;
        let certificate = TestCertificate::new(&["secure.example"]);
        cluster.apply(&certificate.secret_in(&cluster.namespace, "tls")).await?;
        cluster.apply(&class.ingress("secure", "secure.example", "web")).await?;
        let tls = json!({"spec": {"tls": [{"hosts": ["secure.example"], "secretName": "tls"}]}});
        cluster.merge::<Ingress>("secure", tls).await?;
        cluster.apply(&class.ingress("forced", "forced.example", "web")).await?;
        let forced = json!({"nginx.ingress.kubernetes.io/force-ssl-redirect": "true"});
        cluster.merge::<Ingress>("forced", json!({"metadata": {"annotations": forced}})).await?;
        // Objects that are visible only with the rights to classes and Services.
        let late = class.sibling("late");
        cluster.apply(&late.ingress("late", "late.example", "web")).await?;
        cluster.apply(&class.ingress("second", "second.example", "second")).await?;

        let (wire, gateway) = gateway(cluster, &class).await?;
        cluster.served(gateway.http, HOST, 200).await?;
        let load = Load::new(cluster, gateway.http, [LoadTarget::new(HOST, "web")]).start().await?;
        for right in RIGHTS {
            lose(cluster, &wire, &gateway, right).await?;
            load.more(200).await?;
            ensure!(shows(gateway.https, &certificate).await?, "{right}");
            match right.rsplit('/').next().unwrap_or_default() {
                "ingressclasses" => {
                    cluster.apply(&late.manifest()).await?;
                    regain(cluster, &gateway, right).await?;
                    cluster.served(gateway.http, "late.example", 200).await?;
                }
                "ingresses" => {
                    cluster.apply(&class.ingress("new", "new.example", "web")).await?;
                    ensure!(cluster.get(gateway.http, "new.example", "/").await?.status() == 404);
                    regain(cluster, &gateway, right).await?;
                    cluster.served(gateway.http, "new.example", 200).await?;
                }
                "services" => {
                    cluster.apply(&deployment("second", 1)).await?;
                    cluster.available("second", 1).await?;
                    regain(cluster, &gateway, right).await?;
                    cluster.served(gateway.http, "second.example", 200).await?;
                }
                "endpointslices" => {
                    cluster.merge::<Deployment>("web", json!({"spec": {"replicas": 3}})).await?;
                    cluster.available("web", 3).await?;
                    regain(cluster, &gateway, right).await?;
                    let pods = cluster.pods("app=web").await?;
                    load.until("every Pod to answer", |tally| {
                        pods.iter().all(|pod| tally.by(&pod.name_any()) > 0)
                    })
                    .await?;
                }
                "secrets" => {
                    let rotated = TestCertificate::new(&["secure.example"]);
                    cluster.apply(&rotated.secret_in(&cluster.namespace, "tls")).await?;
                    regain(cluster, &gateway, right).await?;
                    cluster.shows(gateway.https, &rotated, true).await?;
                    // Objects that are visible only with the other rights.
                    cluster.apply(&certificate.secret_in(&cluster.namespace, "tls")).await?;
                    cluster.shows(gateway.https, &certificate, true).await?;
                }
                "configmaps" => {
                    cluster
                        .merge::<ConfigMap>("settings", json!({"data": {"http-redirect-code": "307"}}))
                        .await?;
                    regain(cluster, &gateway, right).await?;
                    cluster.served(gateway.http, "forced.example", 307).await?;
                }
                _ => regain(cluster, &gateway, right).await?,
            }
        }
        // All of them at once, as when a chart replaces the binding.
        for right in RIGHTS {
            cluster.deny("gateway", true, right).await?;
        }
        wire.cut();
        cluster
            .until("the gateway to miss all of them", async || {
                let problems = gateway.problems(cluster).await?;
                Ok((problems.matches("no right to list and watch").count() == RIGHTS.len()).then_some(()))
            })
            .await?;
        load.more(400).await?;
        for right in RIGHTS {
            cluster.allow("gateway", true, &[right]).await?;
        }
        cluster.move_ingress("new", "newer.example").await?;
        cluster.served(gateway.http, "newer.example", 200).await?;
        load.stop("each right taken away and given back").await?.none_failed()
    });
}
