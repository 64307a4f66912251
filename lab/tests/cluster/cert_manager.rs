//! cert-manager with Sluice: an Ingress requests a certificate, an ACME server sends its HTTP-01
//! challenge through the gateway to cert-manager's solver, and the certificate is served, and
//! renewed under load.
//!
//! The controllers and the solver are cert-manager's, the ACME server is Pebble. Only
//! cert-manager's webhook is left out, which validates objects.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::networking::v1::Ingress;
use serde_json::json;
use sluice_lab::harness::load::{Load, LoadTarget};
use sluice_lab::harness::{Cluster, GatewayPods, Program, TestClass, client_of_pem, handshake, own};
use sluice_lab::layout::LabSettings;
use sluice_lab::programs::{Unit, find};
use sluice_testing::certificate::TestCertificate;

const HOST: &str = "web.example";
/// The lab's DNS server, which also resolves the hosts of Ingresses.
const NAMES: &str = "10.244.0.1:53";
const ACME: &str = "10.244.0.1:14000";
const MANAGEMENT: &str = "10.244.0.1:15000";

#[test]
fn cert_manager_issues_and_renews_through_the_gateway() {
    if !Unit::CertManager.is_built() {
        eprintln!("not run: cert-manager is not built; `sluice-lab build cert-manager` does it");
        return;
    }
    // The CRDs are cluster-scoped.
    own(LabSettings { nodes: 1, dual_stack: false, images: Vec::new() }, async |cluster, _| {
        let crds = Unit::CertManager.folder().join("crds");
        let crds = crds.to_str().context("a path")?;
        kubectl(cluster, &["apply", "--server-side", "-f", crds])?;
        kubectl(cluster, &["wait", "--for=condition=Established", "--timeout=60s", "-f", crds])?;
        let (_pebble, server) = pebble(cluster)?;
        let mut manager = cert_manager(cluster)?;

        let class = TestClass::web(cluster, 2).await?;
        let [controller, name] = class.flags();
        let publish = format!("--publish-service={}/gateway", cluster.namespace);
        let gateway = GatewayPods::start(cluster, "gateway", 2, &[&controller, &name, &publish]).await?;
        let [http, https] = [80, 443].map(|port| (gateway.address, port).into());
        cluster.served(http, HOST, 200).await?;

        cluster.apply(&issuer(&class, &server)).await?;
        let asks = json!({
            "metadata": {"annotations": {"cert-manager.io/issuer": "pebble"}},
            "spec": {"tls": [{"hosts": [HOST], "secretName": "web-tls"}]},
        });
        cluster.merge::<Ingress>("web", asks).await?;
        ready(cluster).await.with_context(|| manager.output())?;

        // Pebble creates a new root at each start.
        let root = curl(cluster, &format!("https://{MANAGEMENT}/roots/0"))?;
        let client = client_of_pem(&root)?;
        let first = cluster
            .until("the certificate to be served", async || Ok(Some(handshake(&client, https, HOST).await?)))
            .await?;
        let secret = key_of(cluster).await?;

        let load =
            Load::new(cluster, https, [LoadTarget::new(HOST, "web")]).tls(client.clone()).start().await?;
        load.more(50).await?;
        let again = json!({"status": {"conditions": [{
            "type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by a test",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}});
        let patch = again.to_string();
        kubectl(
            cluster,
            &["patch", "certificate", "web-tls", "--subresource=status", "--type=merge", "--patch", &patch],
        )?;
        cluster
            .until("another certificate to be served", async || {
                let shown = handshake(&client, https, HOST).await?;
                Ok((shown != first).then_some(()))
            })
            .await
            .with_context(|| manager.output())?;
        load.more(100).await?;
        load.stop("a certificate renewed by cert-manager").await?.none_failed()?;
        ensure!(key_of(cluster).await? != secret, "the key is the old one");
        // The solver's Pods, Services and Ingresses are deleted with their challenges.
        cluster
            .until("the solver to have gone", async || {
                let left = kubectl(cluster, &["get", "pods,services,ingresses", "-o", "name"])?;
                Ok((!left.contains("cm-acme-http-solver")).then_some(()))
            })
            .await?;
        manager.check()
    });
}

fn kubectl(cluster: &Cluster, arguments: &[&str]) -> Result<String> {
    let output = cluster.kubectl().args(arguments).output()?;
    ensure!(output.status.success(), "kubectl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn curl(cluster: &Cluster, address: &str) -> Result<String> {
    let output = cluster.command("curl").args(["--silent", "--insecure", "--fail", address]).output()?;
    ensure!(output.status.success(), "{address}: {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Starts an ACME server that validates by HTTP on port 80. Returns it with its certificate.
fn pebble(cluster: &Cluster) -> Result<(Program, TestCertificate)> {
    let certificate = TestCertificate::new(&["10.244.0.1"]);
    let folder = cluster.file("pebble");
    std::fs::create_dir_all(&folder)?;
    let [config, shown, key] = ["config.json", "cert.pem", "key.pem"].map(|file| folder.join(file));
    std::fs::write(&shown, &certificate.pem)?;
    std::fs::write(&key, &certificate.key_pem)?;
    let settings = json!({"pebble": {
        "listenAddress": ACME,
        "managementListenAddress": MANAGEMENT,
        "certificate": shown,
        "privateKey": key,
        "httpPort": 80,
        "tlsPort": 443,
        "retryAfter": {"authz": 1, "order": 1},
        "keyAlgorithm": "ecdsa",
    }});
    std::fs::write(&config, settings.to_string())?;
    let program = find(Unit::CertManager, "pebble")?;
    let (program, config) = (program.to_str().context("a path")?, config.to_str().context("a path")?);
    // Disables random waits and rejections; each order is validated again.
    let first = ["PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0", "PEBBLE_AUTHZREUSE=0"];
    let rest = [program, "-config", config, "-dnsserver", NAMES];
    Ok((Program::start(cluster, Path::new("env"), first.into_iter().chain(rest))?, certificate))
}

fn cert_manager(cluster: &Cluster) -> Result<Program> {
    let kubeconfig = cluster.kubeconfig();
    let arguments = [
        "--kubeconfig",
        kubeconfig.to_str().context("a path")?,
        "--namespace",
        &cluster.namespace,
        "--acme-http01-solver-nameservers",
        NAMES,
    ];
    Program::start(cluster, &find(Unit::CertManager, "controller")?, arguments)
}

fn issuer(class: &TestClass, server: &TestCertificate) -> String {
    format!(
        r"
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {{name: pebble}}
spec:
  acme:
    server: https://{ACME}/dir
    caBundle: {}
    privateKeySecretRef: {{name: account}}
    solvers: [{{http01: {{ingress: {{ingressClassName: {}, serviceType: ClusterIP}}}}}}]
",
        STANDARD.encode(&server.pem),
        class.name
    )
}

/// Waits for the certificate of the Ingress.
async fn ready(cluster: &Cluster) -> Result<()> {
    let path = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    cluster
        .until("the Certificate to be ready", async || {
            let state = kubectl(cluster, &["get", "certificate", "web-tls", "--output", path])?;
            Ok((state == "True").then_some(()))
        })
        .await
}

/// Returns the key in the Secret.
async fn key_of(cluster: &Cluster) -> Result<Vec<u8>> {
    let data = cluster.api::<Secret>().get("web-tls").await?.data.context("an empty Secret")?;
    Ok(data.get("tls.key").context("a key")?.0.clone())
}
