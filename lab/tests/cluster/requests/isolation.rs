//! Changes of one Ingress do not affect another: Ingresses that move between classes, and broken
//! ones.

use anyhow::Result;
use k8s_openapi::api::networking::v1::Ingress;
use serde_json::{Value, json};
use sluice_lab::harness::load::{Load, LoadTarget};
use sluice_lab::harness::{Cluster, TestClass, deployment, shared};

/// Creates the test's class with Deployments and Ingresses of these names; the host of `web` is
/// `web.example`.
async fn deployed(cluster: &Cluster, names: [&str; 2]) -> Result<TestClass> {
    let class = TestClass::of(cluster);
    cluster.apply(&class.manifest()).await?;
    for name in names {
        cluster.apply(&deployment(name, 2)).await?;
        cluster.apply(&class.ingress(name, &format!("{name}.example"), name)).await?;
    }
    for name in names {
        cluster.available(name, 2).await?;
    }
    Ok(class)
}

#[test]
fn an_ingress_moves_between_classes_without_a_lost_request() {
    shared(async |cluster| {
        let class = deployed(cluster, ["moving", "resting"]).await?;
        let gateway = class.gateway(cluster, &[]).await?;
        let second = class.sibling("second");
        cluster.apply(&second.manifest()).await?;
        cluster.served(gateway.http, "moving.example", 200).await?;
        let targets = ["moving", "resting"].map(|name| LoadTarget::new(&format!("{name}.example"), name));
        let load = Load::new(cluster, gateway.http, targets).start().await?;
        for round in 0..20 {
            let class = if round % 2 == 0 { &second } else { &class };
            cluster.merge::<Ingress>("moving", json!({"spec": {"ingressClassName": class.name}})).await?;
            load.more(20).await?;
        }
        load.stop("an Ingress moved 20 times between two classes of one gateway").await?.none_failed()
    });
}

#[test]
fn an_ingress_moves_between_gateways_and_harms_no_other() {
    shared(async |cluster| {
        let class = deployed(cluster, ["moving", "resting"]).await?;
        let first = class.gateway(cluster, &[]).await?;
        let other = TestClass { controller: format!("{}-other", class.controller), ..class.sibling("other") };
        cluster.apply(&other.manifest()).await?;
        let second = other.gateway(cluster, &[]).await?;
        cluster.served(first.http, "moving.example", 200).await?;
        let resting = LoadTarget::new("resting.example", "resting");
        let load = Load::new(cluster, first.http, [resting]).start().await?;
        for _ in 0..5 {
            for (class, to, from) in [(&other, second.http, first.http), (&class, first.http, second.http)] {
                cluster.merge::<Ingress>("moving", json!({"spec": {"ingressClassName": class.name}})).await?;
                cluster.served(to, "moving.example", 200).await?;
                cluster.served(from, "moving.example", 404).await?;
            }
        }
        load.stop("an Ingress moved 10 times between two gateways").await?.none_failed()
    });
}

/// Returns Ingresses with faults that the API accepts: missing references and invalid values. One
/// shares the host of a good Ingress.
fn broken(class: &TestClass) -> Vec<Value> {
    let ingress = |name: &str, host: &str, path: &str, annotations: Value, service: &str, port: u16| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "ingressClassName": class.name,
                "rules": [{"host": host, "http": {"paths": [{
                    "path": path, "pathType": "ImplementationSpecific",
                    "backend": {"service": {"name": service, "port": {"number": port}}},
                }]}}],
            },
        })
    };
    let prefix = "nginx.ingress.kubernetes.io";
    let regex = json!({format!("{prefix}/use-regex"): "true"});
    let auth = json!({format!("{prefix}/auth-type"): "basic", format!("{prefix}/auth-secret"): "nowhere"});
    let snippet = json!({format!("{prefix}/configuration-snippet"): "}} server {{"});
    let timeout = json!({format!("{prefix}/proxy-read-timeout"): "soon"});
    let mut no_certificate = ingress("no-certificate", "no-certificate.example", "/", json!({}), "good", 80);
    no_certificate["spec"]["tls"] = json!([{"hosts": ["no-certificate.example"], "secretName": "nowhere"}]);
    vec![
        no_certificate,
        ingress("no-service", "no-service.example", "/", json!({}), "nobody", 80),
        ingress("no-port", "no-port.example", "/", json!({}), "good", 81),
        ingress("bad-regex", "bad-regex.example", "/(((", regex, "good", 80),
        ingress("no-secret", "no-secret.example", "/", auth, "good", 80),
        ingress("snippet", "snippet.example", "/", snippet, "good", 80),
        ingress("bad-timeout", "good.example", "/broken", timeout, "nobody", 80),
    ]
}

#[test]
fn broken_ingresses_harm_no_good_one() {
    shared(async |cluster| {
        let class = deployed(cluster, ["good", "wavering"]).await?;
        let gateway = class.gateway(cluster, &[]).await?;
        cluster.served(gateway.http, "good.example", 200).await?;
        cluster.served(gateway.http, "wavering.example", 200).await?;
        let load =
            Load::new(cluster, gateway.http, [LoadTarget::new("good.example", "good")]).start().await?;
        for object in broken(&class) {
            cluster.apply(&object.to_string()).await?;
            load.more(20).await?;
        }
        let auth = |kind: Option<&str>| {
            let name = |last| format!("nginx.ingress.kubernetes.io/{last}");
            let secret = kind.map(|_| "nowhere");
            json!({"metadata": {"annotations": {name("auth-type"): kind, name("auth-secret"): secret}}})
        };
        for _ in 0..3 {
            // A protection that cannot be built closes its own routes.
            cluster.merge::<Ingress>("wavering", auth(Some("basic"))).await?;
            cluster.served(gateway.http, "wavering.example", 503).await?;
            cluster.merge::<Ingress>("wavering", auth(None)).await?;
            cluster.served(gateway.http, "wavering.example", 200).await?;
        }
        for object in broken(&class) {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            cluster.api::<Ingress>().delete(name, &Default::default()).await?;
        }
        load.more(50).await?;
        load.stop("7 broken Ingresses among good ones, one that breaks and heals").await?.none_failed()
    });
}
