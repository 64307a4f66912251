//! A gateway that starts while the API is down serves the last configuration, and updates it when
//! the API is back.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use sluice_lab::harness::{TestClass, shared, shows};
use sluice_lab::wire::Behaviour;
use sluice_testing::certificate::TestCertificate;

#[test]
fn the_last_configuration_is_served_until_the_api_is_back() {
    shared(async |cluster| -> Result<()> {
        let class = TestClass::web(cluster, 1).await?;
        cluster.apply(&class.ingress("gone", "gone.example", "web")).await?;
        let certificate = TestCertificate::new(&["web.example"]);
        cluster.apply(&certificate.secret_in(&cluster.namespace, "tls")).await?;
        let tls = json!({"spec": {"tls": [{"hosts": ["web.example"], "secretName": "tls"}]}});
        cluster.merge::<Ingress>("web", tls).await?;
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("snapshot.json");
        let flag = format!("--snapshot-file={}", file.display());
        let (wire, kubeconfig) = cluster.api_wire().await?;

        let first = class.begin_gateway(cluster, &kubeconfig, &[&flag])?;
        first.ready(cluster).await?;
        cluster.until("the file", async || Ok(file.exists().then_some(()))).await?;
        // A change just before shutdown is in the file as well.
        cluster.apply(&class.ingress("late", "late.example", "web")).await?;
        cluster.served(first.http, "late.example", 200).await?;
        ensure!(first.end(Duration::from_secs(30)).await?.success());
        ensure!(file.metadata()?.permissions().mode() & 0o777 == 0o600);

        wire.set(Behaviour::Refuse);
        cluster.api::<Ingress>().delete("gone", &DeleteParams::default()).await?;
        let second = class.begin_gateway(cluster, &kubeconfig, &[&flag])?;
        second.ready(cluster).await?;
        for host in ["gone.example", "late.example"] {
            ensure!(cluster.get(second.http, host, "/").await?.status() == 200, "{host}");
        }
        ensure!(shows(second.https, &certificate).await?);
        second.await_output(cluster, "serving the last configuration").await?;

        wire.set(Behaviour::Pass);
        cluster.served(second.http, "gone.example", 404).await?;
        ensure!(cluster.get(second.http, "late.example", "/").await?.status() == 200);
        ensure!(shows(second.https, &certificate).await?);
        cluster.move_ingress("late", "later.example").await?;
        cluster.served(second.http, "later.example", 200).await?;
        // The gateway sees the whole cluster, objects of other tests included.
        let problems: Vec<Value> = serde_json::from_str(&second.problems(cluster).await?)?;
        let foreign = |problem: &Value| {
            problem["object"]["namespace"].as_str().is_some_and(|namespace| namespace != cluster.namespace)
        };
        ensure!(problems.iter().all(foreign), "{problems:?}");
        Ok(())
    });
}

#[test]
fn a_damaged_file_is_reported_and_ignored() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("snapshot.json");
        std::fs::write(&file, "{\"format\": 1, \"delta\": {\"compl")?;
        let flag = format!("--snapshot-file={}", file.display());
        let (wire, kubeconfig) = cluster.api_wire().await?;
        wire.set(Behaviour::Refuse);
        let gateway = class.begin_gateway(cluster, &kubeconfig, &[&flag])?;
        let is_reported = async || {
            let output = gateway.output();
            Ok((output.contains("--snapshot-file cannot be used") && output.contains("line 1")).then_some(()))
        };
        cluster.until("the log line", is_reported).await?;
        ensure!(gateway.health_status(cluster, "/healthz").await? == 500);
        wire.set(Behaviour::Pass);
        gateway.ready(cluster).await?;
        cluster.served(gateway.http, "web.example", 200).await?;
        Ok(())
    });
}
