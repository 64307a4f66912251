//! Secrets: referenced ones are served, whenever the reference is created, and no content is ever
//! logged.

use anyhow::{Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::DeleteParams;
use serde_json::json;
use sluice_lab::harness::{Cluster, TestClass, shared, shows};
use sluice_testing::certificate::TestCertificate;

async fn refer(cluster: &Cluster, secret: &str) -> Result<()> {
    let tls = json!([{"hosts": ["web.example"], "secretName": secret}]);
    cluster.merge::<Ingress>("web", json!({"spec": {"tls": tls}})).await?;
    Ok(())
}

#[test]
fn a_certificate_that_is_there_is_served_rotated_and_gone() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let first = TestCertificate::new(&["web.example"]);
        cluster.apply(&first.secret_in(&cluster.namespace, "tls")).await?;
        refer(cluster, "tls").await?;
        let gateway = class.gateway(cluster, &["--v=5"]).await?;
        ensure!(shows(gateway.https, &first).await?, "ready without the certificate");
        let second = TestCertificate::new(&["web.example"]);
        cluster.apply(&second.secret_in(&cluster.namespace, "tls")).await?;
        cluster.shows(gateway.https, &second, true).await?;
        cluster.api::<Secret>().delete("tls", &DeleteParams::default()).await?;
        cluster.shows(gateway.https, &second, false).await?;
        // Recreated under the same name; the watch detects it.
        cluster.apply(&first.secret_in(&cluster.namespace, "tls")).await?;
        cluster.shows(gateway.https, &first, true).await?;
        let log = gateway.output();
        for certificate in [&first, &second] {
            ensure!(!log.contains(&STANDARD.encode(&certificate.key_pem)), "a key is in the log");
        }
        Ok(())
    });
}

#[test]
fn a_secret_that_is_first_referred_to_later_is_fetched() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let [old, new] = [TestCertificate::new(&["web.example"]), TestCertificate::new(&["web.example"])];
        cluster.apply(&old.secret_in(&cluster.namespace, "old")).await?;
        cluster.apply(&new.secret_in(&cluster.namespace, "new")).await?;
        refer(cluster, "old").await?;
        let gateway = class.gateway(cluster, &[]).await?;
        ensure!(shows(gateway.https, &old).await?);
        refer(cluster, "new").await?;
        cluster.shows(gateway.https, &new, true).await?;
        // A fetched Secret is watched from then on.
        let rotated = TestCertificate::new(&["web.example"]);
        cluster.apply(&rotated.secret_in(&cluster.namespace, "new")).await?;
        cluster.shows(gateway.https, &rotated, true).await?;
        // A Secret that is referenced again is fetched in its current version.
        let other = TestCertificate::new(&["web.example"]);
        cluster.apply(&other.secret_in(&cluster.namespace, "old")).await?;
        refer(cluster, "old").await?;
        cluster.shows(gateway.https, &other, true).await?;
        Ok(())
    });
}

#[test]
fn a_secret_may_come_after_what_refers_to_it() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        refer(cluster, "tls").await?;
        let gateway = class.gateway(cluster, &[]).await?;
        let certificate = TestCertificate::new(&["web.example"]);
        ensure!(!shows(gateway.https, &certificate).await?);
        cluster.apply(&certificate.secret_in(&cluster.namespace, "tls")).await?;
        cluster.shows(gateway.https, &certificate, true).await
    });
}

#[test]
fn the_default_certificate_is_one_of_them() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let certificate = TestCertificate::new(&["any.example"]);
        cluster.apply(&certificate.secret_in(&cluster.namespace, "default-tls")).await?;
        let flag = format!("--default-ssl-certificate={}/default-tls", cluster.namespace);
        let gateway = class.gateway(cluster, &[&flag]).await?;
        ensure!(shows(gateway.https, &certificate).await?, "{}", gateway.output());
        Ok(())
    });
}
