//! The k6 scripts against a gateway in a cluster while Pods are added and removed.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::networking::v1::Ingress;
use serde_json::json;
use sluice_lab::harness::{Cluster, EndpointState, GatewayPods, TestClass, shared};
use sluice_lab::programs::{Unit, find};
use tokio::process::Command;

/// Runs a script against the host `web.example` of a gateway. Independent of the machine's speed.
async fn k6(cluster: &Cluster, gateway: SocketAddr, script: &str, settings: &[&str]) -> Result<()> {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../loadtest/k6");
    let target = format!("TARGET=http://{gateway}");
    let mut command = Command::from(cluster.command(find(Unit::K6, "k6")?));
    command.args(["run", "--quiet", "--no-usage-report", "--address", ""]);
    for setting in [target.as_str(), "HOST=web.example", "P99_MS=0"].iter().chain(settings) {
        command.args(["-e", setting]);
    }
    let output = command.arg(scripts.join(script)).kill_on_drop(true).output().await.context("k6")?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "{script}: {}\n{}", said(&output.stdout), said(&output.stderr));
    Ok(())
}

async fn gateway(cluster: &Cluster, class: &TestClass) -> Result<SocketAddr> {
    let flags = class.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let gateway = GatewayPods::start(cluster, "gateway", 1, &flags).await?;
    let address = (gateway.address, 80).into();
    cluster.served(address, "web.example", 200).await?;
    Ok(address)
}

#[test]
fn smoke_and_sockets_pass() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 2).await?;
        let gateway = gateway(cluster, &class).await?;
        k6(cluster, gateway, "smoke.js", &[]).await?;
        k6(cluster, gateway, "websocket.js", &["VUS=10", "DURATION=2s"]).await
    });
}

/// Pods behind the Service `web` in addition to those of its own Deployment.
const TRANSIENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: transient}
spec:
  replicas: 2
  selector: {matchLabels: {app: web, transient: "true"}}
  template:
    metadata: {labels: {app: web, transient: "true"}}
    spec:
      containers:
      - name: echo
        image: echo
        ports: [{name: http, containerPort: 8080}]
        env: [{name: DRAIN_MS, value: "2000"}]
        readinessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 1}
"#;

async fn ready(cluster: &Cluster, pods: usize) -> Result<()> {
    let count = |all: &[EndpointState]| all.iter().filter(|endpoint| endpoint.ready).count();
    cluster.endpoints("web", |all| count(all) == pods).await.map(drop)
}

/// Removes the transient Pods and adds others while it is polled.
async fn scale_transient(cluster: &Cluster, scaled: &mut u32) -> Result<Infallible> {
    loop {
        for (replicas, pods) in [(0, 2), (2, 4)] {
            cluster.merge::<Deployment>("transient", json!({"spec": {"replicas": replicas}})).await?;
            ready(cluster, pods).await?;
            *scaled += 1;
        }
    }
}

#[test]
fn sessions_stay_with_the_pods_that_stay() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 2).await?;
        let session = json!({
            "nginx.ingress.kubernetes.io/affinity": "cookie",
            "nginx.ingress.kubernetes.io/affinity-mode": "persistent",
        });
        cluster.merge::<Ingress>("web", json!({"metadata": {"annotations": session}})).await?;
        cluster.apply(TRANSIENT).await?;
        ready(cluster, 4).await?;
        let gateway = gateway(cluster, &class).await?;
        let mut scaled = 0;
        let settings = ["VUS=30", "DURATION=10s", "TRANSIENT=^transient-"];
        tokio::select! {
            ran = k6(cluster, gateway, "sticky.js", &settings) => ran?,
            failed = scale_transient(cluster, &mut scaled) => match failed {
                Ok(never) => match never {},
                Err(error) => return Err(error),
            },
        }
        ensure!(scaled > 0, "no endpoint changed in all that time");
        Ok(())
    });
}
