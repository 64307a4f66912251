//! The gateway with few rights: one namespace by a Role, no right to list IngressClasses, and the
//! problems of missing rights. Namespaces by selector.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::Ingress;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use sluice_lab::harness::{Cluster, TestClass, shared, shows};
use sluice_testing::certificate::TestCertificate;

/// The rights that one namespace requires.
const NAMESPACED: [&str; 4] =
    ["networking.k8s.io/ingresses", "/services", "discovery.k8s.io/endpointslices", "/secrets"];

/// Sets the class of an Ingress by the annotation instead of the field.
async fn annotate(cluster: &Cluster, ingress: &str, class: &TestClass) -> Result<()> {
    let annotations = json!({"kubernetes.io/ingress.class": class.name});
    let patch = json!({"metadata": {"annotations": annotations}, "spec": {"ingressClassName": null}});
    cluster.merge::<Ingress>(ingress, patch).await?;
    Ok(())
}

#[test]
fn a_role_of_one_namespace_is_enough() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let certificate = TestCertificate::new(&["secure.example"]);
        cluster.apply(&certificate.secret_in(&cluster.namespace, "tls")).await?;
        cluster.apply(&class.ingress("secure", "secure.example", "web")).await?;
        let tls = json!({"spec": {"tls": [{"hosts": ["secure.example"], "secretName": "tls"}]}});
        cluster.merge::<Ingress>("secure", tls).await?;
        let kubeconfig = cluster.account("gateway").await?;
        cluster.allow("gateway", false, &NAMESPACED).await?;
        let namespace = format!("--watch-namespace={}", cluster.namespace);
        annotate(cluster, "web", &class).await?;
        annotate(cluster, "secure", &class).await?;
        let gateway = class.begin_gateway(cluster, &kubeconfig, &[&namespace])?;
        gateway.ready(cluster).await?;
        ensure!(cluster.get(gateway.http, "web.example", "/").await?.status() == 200);
        ensure!(shows(gateway.https, &certificate).await?);
        let problems = gateway.problems(cluster).await?;
        ensure!(problems.contains("ingressclasses") && problems.contains("ClusterRole"), "{problems}");

        // Without the right to list IngressClasses the field is ignored, with a problem.
        cluster.apply(&class.ingress("late", "late.example", "web")).await?;
        cluster
            .until("the problem of the Ingress", async || {
                Ok(gateway.problems(cluster).await?.contains("the controller of class").then_some(()))
            })
            .await?;
        ensure!(cluster.get(gateway.http, "late.example", "/").await?.status() == 404);

        // The right takes effect without a restart.
        cluster.allow("gateway", true, &["networking.k8s.io/ingressclasses"]).await?;
        cluster.served(gateway.http, "late.example", 200).await?;
        cluster.served(gateway.http, "web.example", 200).await?;
        ensure!(gateway.problems(cluster).await?.trim() == "[]");
        Ok(())
    });
}

#[test]
fn a_start_without_the_right_to_classes_is_not_ready_when_empty() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let certificate = TestCertificate::new(&["web.example"]);
        cluster.apply(&certificate.secret_in(&cluster.namespace, "tls")).await?;
        let tls = json!({"spec": {"tls": [{"hosts": ["web.example"], "secretName": "tls"}]}});
        cluster.merge::<Ingress>("web", tls).await?;
        let kubeconfig = cluster.account("gateway").await?;
        cluster.allow("gateway", false, &NAMESPACED).await?;
        let namespace = format!("--watch-namespace={}", cluster.namespace);
        let gateway = class.begin_gateway(cluster, &kubeconfig, &[&namespace])?;
        cluster
            .until("the gateway to report what it waits for", async || {
                let problems = gateway.problems(cluster).await?;
                Ok((problems.contains("not ready") && problems.contains("/web")).then_some(()))
            })
            .await?;
        ensure!(gateway.health_status(cluster, "/healthz").await? == 500, "ready with nothing");
        cluster.allow("gateway", true, &["networking.k8s.io/ingressclasses"]).await?;
        gateway.ready(cluster).await?;
        // The host has TLS.
        ensure!(cluster.get(gateway.http, "web.example", "/").await?.status() == 308);
        ensure!(shows(gateway.https, &certificate).await?, "ready without the certificate");
        ensure!(gateway.problems(cluster).await?.trim() == "[]");
        Ok(())
    });
}

#[test]
fn a_class_by_name_needs_no_right_to_classes() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let kubeconfig = cluster.account("gateway").await?;
        cluster.allow("gateway", false, &NAMESPACED).await?;
        let namespace = format!("--watch-namespace={}", cluster.namespace);
        let gateway = class.begin_gateway(cluster, &kubeconfig, &[&namespace, "--ingress-class-by-name"])?;
        gateway.ready(cluster).await?;
        cluster.served(gateway.http, "web.example", 200).await?;
        Ok(())
    });
}

#[test]
fn a_missing_right_is_named_and_picked_up_without_a_restart() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let kubeconfig = cluster.account("gateway").await?;
        let rights = ["networking.k8s.io/ingresses", "discovery.k8s.io/endpointslices", "/secrets"];
        cluster.allow("gateway", false, &rights).await?;
        cluster.allow("gateway", true, &["networking.k8s.io/ingressclasses"]).await?;
        let namespace = format!("--watch-namespace={}", cluster.namespace);
        let gateway = class.begin_gateway(cluster, &kubeconfig, &[&namespace])?;
        for part in ["Role in namespace", "resources: [\"services\"]", "verbs: [\"list\", \"watch\"]"] {
            gateway.await_output(cluster, part).await?;
        }
        ensure!(gateway.problems(cluster).await?.contains("services"));
        ensure!(gateway.health_status(cluster, "/healthz").await? == 500, "ready without Services");
        ensure!(gateway.health_status(cluster, "/livez").await? == 200);
        cluster.allow("gateway", false, &["/services"]).await?;
        gateway.ready(cluster).await?;
        cluster.served(gateway.http, "web.example", 200).await?;
        ensure!(gateway.problems(cluster).await?.trim() == "[]");
        Ok(())
    });
}

#[test]
fn another_namespace_is_not_served() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let gateway = class.gateway(cluster, &["--watch-namespace=default"]).await?;
        ensure!(cluster.get(gateway.http, "web.example", "/").await?.status() == 404);
        Ok(())
    });
}

#[test]
fn the_labels_of_a_namespace_decide_at_once() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let selector = format!("--watch-namespace-selector=served-by={}", class.name);
        let gateway = class.gateway(cluster, &[&selector]).await?;
        ensure!(cluster.get(gateway.http, "web.example", "/").await?.status() == 404);
        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        let label = async |value: Option<&str>| -> Result<()> {
            let patch = Patch::Merge(json!({"metadata": {"labels": {"served-by": value}}}));
            namespaces.patch(&cluster.namespace, &PatchParams::default(), &patch).await?;
            Ok(())
        };
        label(Some(&class.name)).await?;
        cluster.served(gateway.http, "web.example", 200).await?;
        label(Some("another")).await?;
        cluster.served(gateway.http, "web.example", 404).await?;
        label(Some(&class.name)).await?;
        cluster.served(gateway.http, "web.example", 200).await?;
        label(None).await?;
        cluster.served(gateway.http, "web.example", 404).await?;
        Ok(())
    });
}
