//! Secrets: those that something refers to are served, whenever they come to be referred to, and nothing of any
//! is ever logged.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::DeleteParams;
use serde_json::json;
use sluice_lab::harness::{Cluster, TestCertificate, TestClass, shared};

async fn refer(cluster: &Cluster, secret: &str) -> Result<()> {
    let tls = json!([{"hosts": ["web.example"], "secretName": secret}]);
    cluster.merge::<Ingress>("web", json!({"spec": {"tls": tls}})).await?;
    Ok(())
}

#[test]
fn a_certificate_that_is_there_is_served_rotated_and_gone() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let first = TestCertificate::new("web.example")?;
        cluster.apply(&first.secret("tls")).await?;
        refer(cluster, "tls").await?;
        let gateway = class.gateway(cluster, &["--v=5"]).await?;
        ensure!(first.is_served(gateway.https).await?, "ready without the certificate");
        let second = TestCertificate::new("web.example")?;
        cluster.apply(&second.secret("tls")).await?;
        second.served(cluster, gateway.https, true).await?;
        cluster.api::<Secret>().delete("tls", &DeleteParams::default()).await?;
        second.served(cluster, gateway.https, false).await?;
        // It comes back under the same name, by the watch alone.
        cluster.apply(&first.secret("tls")).await?;
        first.served(cluster, gateway.https, true).await?;
        let log = gateway.output();
        for certificate in [&first, &second] {
            ensure!(!log.contains(&certificate.encoded_key()), "a key is in the log");
        }
        Ok(())
    });
}

#[test]
fn a_secret_that_is_first_referred_to_later_is_fetched() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let [old, new] = [TestCertificate::new("web.example")?, TestCertificate::new("web.example")?];
        cluster.apply(&old.secret("old")).await?;
        cluster.apply(&new.secret("new")).await?;
        refer(cluster, "old").await?;
        let gateway = class.gateway(cluster, &[]).await?;
        ensure!(old.is_served(gateway.https).await?);
        refer(cluster, "new").await?;
        new.served(cluster, gateway.https, true).await?;
        // What was fetched is followed from then on.
        let rotated = TestCertificate::new("web.example")?;
        cluster.apply(&rotated.secret("new")).await?;
        rotated.served(cluster, gateway.https, true).await?;
        // What was let go is fetched anew, in the version it has come to meanwhile.
        let other = TestCertificate::new("web.example")?;
        cluster.apply(&other.secret("old")).await?;
        refer(cluster, "old").await?;
        other.served(cluster, gateway.https, true).await?;
        Ok(())
    });
}

#[test]
fn a_secret_may_come_after_what_refers_to_it() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        refer(cluster, "tls").await?;
        let gateway = class.gateway(cluster, &[]).await?;
        let certificate = TestCertificate::new("web.example")?;
        ensure!(!certificate.is_served(gateway.https).await?);
        cluster.apply(&certificate.secret("tls")).await?;
        certificate.served(cluster, gateway.https, true).await
    });
}

#[test]
fn the_default_certificate_is_one_of_them() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let certificate = TestCertificate::new("any.example")?;
        cluster.apply(&certificate.secret("default-tls")).await?;
        let flag = format!("--default-ssl-certificate={}/default-tls", cluster.namespace);
        let gateway = class.gateway(cluster, &[&flag]).await?;
        ensure!(certificate.is_served(gateway.https).await?, "{}", gateway.output());
        Ok(())
    });
}
