//! The gateway that reviews Ingresses is down: the webhook's failure policy applies, and requests
//! are not affected.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use sluice_lab::harness::load::{Load, LoadTarget};
use sluice_lab::harness::{Cluster, TestClass, in_lab};
use sluice_testing::certificate::TestCertificate;

const HOST: &str = "web.example";
const BAD: &str = "nginx.ingress.kubernetes.io/limit-rps";

/// Configures the API server to send Ingresses of the test's namespace to a port of the lab.
async fn webhook(cluster: &Cluster, port: u16, authority: &str, policy: &str) -> Result<()> {
    let namespace = &cluster.namespace;
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": namespace},
        "webhooks": [{
            "name": "validate.sluice.dev",
            "rules": [{"apiGroups": ["networking.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["ingresses"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "clientConfig": {"url": format!("https://10.244.0.1:{port}/networking/v1/ingresses"),
                "caBundle": STANDARD.encode(authority)},
            "failurePolicy": policy,
            "timeoutSeconds": 5,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    });
    let api: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client.clone());
    let how = PatchParams::apply("test").force();
    api.patch(namespace, &how, &Patch::Apply(configuration)).await?;
    Ok(())
}

#[test]
fn without_a_reviewer_the_failure_policy_applies() {
    in_lab(async |cluster, _| {
        let class = TestClass::web(cluster, 2).await?;
        let folder = tempfile::tempdir()?;
        let certificate = TestCertificate::new(&["10.244.0.1"]);
        let file = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(file("tls.crt"), &certificate.pem)?;
        std::fs::write(file("tls.key"), &certificate.key_pem)?;
        let port = sluice_testing::ports::reserve();
        let flags = [
            format!("--validating-webhook=10.244.0.1:{port}"),
            format!("--validating-webhook-certificate={}", file("tls.crt")),
            format!("--validating-webhook-key={}", file("tls.key")),
        ];
        let reviewer = class.gateway(cluster, &flags.each_ref().map(String::as_str)).await?;
        let serving = class.gateway(cluster, &[]).await?;
        cluster.served(serving.http, HOST, 200).await?;
        let load = Load::new(cluster, serving.http, [LoadTarget::new(HOST, "web")]).start().await?;
        let apply = |name: &str, bad: bool| -> Result<(bool, String)> {
            let good = class.ingress(name, &format!("{name}.example"), "web");
            let annotated = format!("metadata: {{annotations: {{{BAD}: many}}, ");
            let manifest = if bad { good.replace("metadata: {", &annotated) } else { good };
            std::fs::write(file("ingress.yaml"), manifest)?;
            let output = cluster.kubectl().arg("apply").arg("-f").arg(file("ingress.yaml")).output()?;
            let text = [output.stdout, output.stderr].concat();
            Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
        };
        webhook(cluster, port, &certificate.pem, "Fail").await?;
        cluster
            .until("the API server to ask", async || {
                let (taken, text) = apply("probe", true)?;
                if taken {
                    cluster.kubectl().args(["delete", "ingress", "probe"]).output()?;
                }
                Ok((!taken && text.contains("denied the request")).then_some(()))
            })
            .await?;

        // Without a reviewer nothing is admitted, and existing Ingresses are served.
        reviewer.end(Duration::from_secs(30)).await?;
        let (taken, text) = apply("unreviewed", false)?;
        ensure!(!taken && text.contains("failed calling webhook"), "{text}");
        println!("failurePolicy Fail, no gateway: {}", text.trim());
        load.more(200).await?;

        webhook(cluster, port, &certificate.pem, "Ignore").await?;
        cluster
            .until("an Ingress to go in without a review", async || {
                Ok(apply("unreviewed", false)?.0.then_some(()))
            })
            .await?;
        cluster.served(serving.http, "unreviewed.example", 200).await?;
        // A faulty Ingress is admitted, affects no other one, and is reported.
        ensure!(apply("wrong", true)?.0);
        cluster
            .until("the problem of the faulty Ingress", async || {
                Ok(serving.problems(cluster).await?.contains("limit-rps").then_some(()))
            })
            .await?;

        // With a reviewer again, Ingresses are reviewed.
        webhook(cluster, port, &certificate.pem, "Fail").await?;
        let back = class.gateway(cluster, &flags.each_ref().map(String::as_str)).await?;
        cluster
            .until("reviews to work again", async || {
                let (taken, text) = apply("again", true)?;
                Ok((!taken && text.contains("denied the request")).then_some(()))
            })
            .await?;
        ensure!(apply("good", false)?.0);
        drop(back);
        let api: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client.clone());
        api.delete(&cluster.namespace, &DeleteParams::default()).await.context("the webhook")?;
        load.more(200).await?;
        load.stop("the gateway that reviews gone and back").await?.none_failed()
    });
}
