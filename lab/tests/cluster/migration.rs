//! The migration from ingress-nginx, step by step as in `docs/migrate-from-ingress-nginx.md` and
//! `docs/migrate-traffic.md`, beside a release with the old controller's objects: no request is
//! lost at either address, and every step can be reverted.

mod document;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use document::Document;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use kube::{Api, ResourceExt};
use sluice_lab::allocator::load_balancer_address;
use sluice_lab::harness::load::{Load, LoadTarget};
use sluice_lab::harness::{Cluster, deployment, own, status_of};
use sluice_lab::layout::LabSettings;
use sluice_testing::certificate::TestCertificate;

const SHOP: &str = "shop.example";
const PLAIN: &str = "plain.example";

#[test]
fn the_migration_loses_no_request_and_is_reversible() {
    // Namespaces and class have the document's names, so the lab is the test's own.
    own(LabSettings { nodes: 1, dual_stack: false, images: Vec::new() }, async |cluster, lab| {
        let document = Document::open(cluster, lab)?;
        let old = old_controller(cluster, &document).await?;
        document.address("203.0.113.10", old);
        let old_load =
            Load::new(cluster, SocketAddr::new(old, 80), [LoadTarget::new(PLAIN, "web")]).start().await?;

        see_what_would_be_different(cluster, &document)?;
        with_a_class_of_its_own(cluster, &document).await?;
        let new = with_the_same_class(cluster, &document, old).await?;
        let new_load =
            Load::new(cluster, SocketAddr::new(new, 80), [LoadTarget::new(PLAIN, "web")]).start().await?;
        with_settings(cluster, &document, new, Settings::Shared).await?;
        compare(cluster, &document)?;
        hand_over_the_status(cluster, &document, old, new).await?;

        // The traffic no longer uses the old address.
        old_load.more(50).await?;
        old_load.stop("the old address, until its controller goes").await?.none_failed()?;
        remove_the_old_controller(cluster, &document, old, new).await?;
        new_load.more(50).await?;
        new_load.stop("the new address, from its first request on").await?.none_failed()?;
        document.finished()
    });
}

/// Creates a release `ingress-nginx` with two hosts, and returns its address.
async fn old_controller(cluster: &Cluster, document: &Document) -> Result<IpAddr> {
    let shop = TestCertificate::new(&[SHOP]);
    document.file("trusted.pem", &shop.pem)?;
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/migration/ingress-nginx");
    let webhook = TestCertificate::new(&["ingress-nginx-controller-admission.ingress-nginx.svc"]);
    document.file(
        "old.yaml",
        &serde_json::json!({"certificate": webhook.pem, "key": webhook.key_pem}).to_string(),
    )?;
    document.shell(
        cluster,
        &format!(
            "helm install ingress-nginx {} --namespace ingress-nginx --create-namespace --values old.yaml",
            chart.display()
        ),
    )?;
    cluster.apply(&shop.secret_in(&cluster.namespace, "shop-tls")).await?;
    cluster.apply(&deployment("web", 2)).await?;
    cluster.available("web", 2).await?;
    cluster
        .apply(&ingress("shop", "nginx", SHOP, "tls: [{hosts: [shop.example], secretName: shop-tls}]"))
        .await?;
    cluster.apply(&ingress("plain", "nginx", PLAIN, "")).await?;
    let old = address(cluster, "ingress-nginx", "ingress-nginx-controller").await?;
    cluster.served(SocketAddr::new(old, 80), PLAIN, 200).await?;
    status(cluster, old).await?;
    Ok(old)
}

fn ingress(name: &str, class: &str, host: &str, more: &str) -> String {
    format!(
        r"
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: {name}}}
spec:
  ingressClassName: {class}
  {more}
  rules:
  - host: {host}
    http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}]}}
"
    )
}

/// Returns a command that a webhook must refuse.
fn misspelt(cluster: &Cluster) -> String {
    let annotation = "nginx.ingress.kubernetes.io/limit-rps=many";
    format!("! kubectl annotate ingress plain --namespace {} {annotation}", cluster.namespace)
}

/// Returns the address of a LoadBalancer Service.
async fn address(cluster: &Cluster, namespace: &str, service: &str) -> Result<IpAddr> {
    let services: Api<Service> = Api::namespaced(cluster.client.clone(), namespace);
    cluster
        .until(&format!("an address of {service}"), async || {
            Ok(services.get_opt(service).await?.as_ref().and_then(load_balancer_address).map(IpAddr::from))
        })
        .await
}

/// Waits until both Ingresses have exactly this address.
async fn status(cluster: &Cluster, address: IpAddr) -> Result<()> {
    for name in ["shop", "plain"] {
        let expected = [address.to_string()];
        cluster
            .wait::<Ingress>(name, &format!("told {address}"), |ingress| status_of(ingress) == expected)
            .await?;
    }
    Ok(())
}

/// Step 1: nothing is installed; the old controller's flags are read.
fn see_what_would_be_different(cluster: &Cluster, document: &Document) -> Result<()> {
    document.block(cluster, "migration.md")?;
    let report = document.written("migration.md")?;
    ensure!(report.starts_with('#'), "no report: {report}");
    let all = "kubectl get ingress,service,configmap,secret,ingressclass --all-namespaces --output yaml";
    document.shell(cluster, &format!("mkdir my-cluster; {all} > my-cluster/all.yaml"))?;
    document.block(cluster, "sluice check --manifests ./my-cluster")?;
    let refused = document.shell(cluster, &misspelt(cluster))?;
    ensure!(refused.contains("denied the request"), "the old webhook reviews: {refused}");
    Ok(())
}

/// Step 2, first variant: a copy of an Ingress in the class `sluice`, which is then removed.
async fn with_a_class_of_its_own(cluster: &Cluster, document: &Document) -> Result<()> {
    document.block(cluster, "compatibility.ingressNginx=false")?;
    let new = address(cluster, "sluice-system", "sluice-controller").await?;
    cluster.served(SocketAddr::new(new, 80), PLAIN, 404).await?;
    let copy = ingress("copy", "sluice", SHOP, "tls: [{hosts: [shop.example], secretName: shop-tls}]");
    cluster.apply(&copy).await?;
    cluster.served(SocketAddr::new(new, 80), SHOP, 308).await?;
    document.address("203.0.113.20", new);
    // The Secret is read after the Ingress refers to it, which may take a moment.
    let ask = async || document.block(cluster, "get service sluice-controller").map(Some);
    let asked = cluster.until("an answer with the certificate", ask).await?;
    ensure!(asked.contains(&cluster.namespace), "no echo of the test's Pod: {asked}");
    let ingresses = cluster.api::<Ingress>();
    ingresses.delete("copy", &kube::api::DeleteParams::default()).await?;
    document.command(cluster, "helm uninstall sluice --namespace sluice-system")?;
    Ok(())
}

/// Step 2, second variant: the same class with another address; the old controller keeps the
/// status.
async fn with_the_same_class(cluster: &Cluster, document: &Document, old: IpAddr) -> Result<IpAddr> {
    let values = "controller:\n  replicaCount: 2\n  config: {hide-headers: X-Hidden}\n  service: {externalTrafficPolicy: Local}\n";
    document.file("my-ingress-nginx-values.yaml", values)?;
    document.block(cluster, "my-ingress-nginx-values.yaml")?;
    let new = address(cluster, "sluice-system", "sluice-controller").await?;
    document.address("203.0.113.20", new);
    cluster.served(SocketAddr::new(new, 80), PLAIN, 200).await?;
    status(cluster, old).await?;
    Ok(new)
}

/// The ConfigMap of the old release has a setting of its own.
#[derive(Clone, Copy)]
enum Settings {
    Shared,
    Own,
}

/// Upgrades the new release to a ConfigMap, and waits for its setting.
async fn with_settings(
    cluster: &Cluster,
    document: &Document,
    new: IpAddr,
    settings: Settings,
) -> Result<()> {
    let flags = match settings {
        Settings::Shared => "--set controller.extraArgs.configmap=ingress-nginx/ingress-nginx-controller",
        Settings::Own => "--reset-then-reuse-values --set controller.extraArgs.configmap=null",
    };
    document.says(flags)?;
    let reuse = if matches!(settings, Settings::Shared) { "--reuse-values" } else { "" };
    let upgrade = "helm upgrade sluice charts/sluice --namespace sluice-system";
    document.shell(cluster, &format!("{upgrade} {reuse} {flags}"))?;
    has_settings(cluster, document, new, settings).await
}

/// Waits for the setting of a ConfigMap.
async fn has_settings(cluster: &Cluster, document: &Document, new: IpAddr, settings: Settings) -> Result<()> {
    let expected = match settings {
        Settings::Shared => "max-age=1234;",
        Settings::Own => "max-age=31536000;",
    };
    let ask = format!("curl --silent --head --resolve {SHOP}:443:{new} https://{SHOP}/");
    cluster
        .until(expected, async || {
            let head = document.shell(cluster, &ask)?;
            ensure!(head.contains(expected), "{head}");
            Ok(Some(()))
        })
        .await
}

/// Step 3: both give the same responses.
fn compare(cluster: &Cluster, document: &Document) -> Result<()> {
    let shown = document.block(cluster, "kubectl sluice problems -n sluice-system")?;
    ensure!(shown.contains(SHOP) && shown.contains("shop-tls"), "{shown}");
    document.file("urls.txt", &format!("https://{SHOP}/\nhttps://{SHOP}/cart\nhttp://{SHOP}/cart\n"))?;
    let compared = document.block(cluster, "--urls urls.txt")?;
    ensure!(compared.contains(": 3 the same, 0 different"), "{compared}");
    document.command(cluster, "kubectl sluice routes -n sluice-system --host shop.example --path /cart")?;
    Ok(())
}

/// Step 5, its reversal, and step 5 again.
async fn hand_over_the_status(
    cluster: &Cluster,
    document: &Document,
    old: IpAddr,
    new: IpAddr,
) -> Result<()> {
    let hand_over = "controller.extraArgs.update-status=true";
    document.block(cluster, hand_over)?;
    status(cluster, new).await?;
    document.block(cluster, "rollout undo")?;
    status(cluster, old).await?;
    document.block(cluster, hand_over)?;
    status(cluster, new).await?;
    let contested = document.shell(cluster, "kubectl sluice problems -n sluice-system")?;
    ensure!(!contested.contains("StatusContested"), "{contested}");
    Ok(())
}

/// Step 6: the old release is removed piece by piece; its class and the shared settings stay.
async fn remove_the_old_controller(
    cluster: &Cluster,
    document: &Document,
    old: IpAddr,
    new: IpAddr,
) -> Result<()> {
    let scale_to_0 = "scale deployment ingress-nginx-controller --replicas 0";
    document.block(cluster, scale_to_0)?;
    // It is restored with its address and its webhook.
    document.block(cluster, "scale deployment ingress-nginx-controller --replicas 1")?;
    cluster.served(SocketAddr::new(old, 80), PLAIN, 200).await?;
    let refused = document.shell(cluster, &misspelt(cluster))?;
    ensure!(refused.contains("denied the request"), "the old webhook reviews: {refused}");
    document.block(cluster, scale_to_0)?;
    status(cluster, new).await?;

    // The gateway still uses the old ConfigMap, and keeps its settings.
    document.block(cluster, "kubectl delete clusterrole,clusterrolebinding")?;
    cluster
        .until("the deletion of the ConfigMap", async || {
            let problems = document.shell(cluster, "kubectl sluice problems -n sluice-system")?;
            ensure!(problems.contains("ConfigMapNotFound"), "{problems}");
            Ok(Some(()))
        })
        .await?;
    has_settings(cluster, document, new, Settings::Shared).await?;
    with_settings(cluster, document, new, Settings::Own).await?;
    document.block(cluster, "kubectl label ingressclass nginx")?;
    let class: IngressClass = Api::all(cluster.client.clone()).get("nginx").await?;
    let release = class.annotations().get("meta.helm.sh/release-name").context("a release")?;
    ensure!(release == "sluice", "{release}");
    // From now on the new webhook reviews.
    let refused = document.shell(cluster, &misspelt(cluster))?;
    ensure!(refused.contains("denied the request"), "{refused}");
    status(cluster, new).await?;
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    namespaces.delete("ingress-nginx", &kube::api::DeleteParams::default()).await?;
    cluster.served(SocketAddr::new(new, 80), PLAIN, 200).await?;
    Ok(())
}
