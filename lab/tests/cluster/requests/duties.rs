//! The controller's duties fail without a lost request: the leader dies, and its rights are
//! revoked.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use sluice_lab::harness::load::{Load, LoadTarget};
use sluice_lab::harness::{Cluster, GatewayProcess, TestClass, shared, status_of};

const HOST: &str = "web.example";
const LEADS: &str = "nginx_ingress_controller_leader_election_status";
const STATUS: &str = "--publish-status-address=192.0.2.7";

async fn replica(cluster: &Cluster, class: &TestClass, pod: &str, flags: &[&str]) -> Result<GatewayProcess> {
    let environment = [format!("POD_NAME={pod}"), format!("POD_NAMESPACE={}", cluster.namespace)];
    let environment = environment.each_ref().map(String::as_str);
    class.gateway_in(cluster, &environment, &cluster.kubeconfig(), flags).await
}

async fn leads(cluster: &Cluster, gateway: &GatewayProcess, value: f64) -> Result<()> {
    cluster
        .until(&format!("{LEADS} to be {value}"), async || {
            Ok((gateway.metric(cluster, LEADS).await? == Some(value)).then_some(()))
        })
        .await
}

async fn has_status(cluster: &Cluster, address: &str) -> Result<()> {
    let what = format!("given the address {address}");
    cluster.wait::<Ingress>("web", &what, |ingress| status_of(ingress) == [address]).await.map(drop)
}

/// Starts a replica that serves clients while it waits for the Lease: requests in flight end with a
/// killed replica.
async fn follower(
    cluster: &Cluster,
    class: &TestClass,
    pod: &str,
    flags: &[&str],
) -> Result<(GatewayProcess, sluice_lab::harness::load::Running)> {
    let gateway = replica(cluster, class, pod, flags).await?;
    leads(cluster, &gateway, 0.0).await?;
    cluster.served(gateway.http, HOST, 200).await?;
    let load = Load::new(cluster, gateway.http, [LoadTarget::new(HOST, "web")]).start().await?;
    Ok((gateway, load))
}

#[test]
fn a_new_leader_loses_no_request() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 2).await?;
        let first = replica(cluster, &class, "a", &[STATUS, "--election-ttl=8s"]).await?;
        cluster.leader("a").await?;
        let (second, load) = follower(cluster, &class, "b", &[STATUS, "--election-ttl=60s"]).await?;
        let begin = Instant::now();
        first.process().end(Duration::ZERO)?;
        overwrite(cluster, "198.51.100.1").await?;
        cluster.leader("b").await?;
        println!("a successor led {:?} after a death, with a Lease of 8 s", begin.elapsed());
        has_status(cluster, "192.0.2.7").await?;
        leads(cluster, &second, 1.0).await?;
        load.more(200).await?;
        load.stop("the leader killed, at its successor").await?.none_failed()?;

        // A replica that ends releases its Lease of 60 s.
        let (third, load) = follower(cluster, &class, "c", &[STATUS]).await?;
        second.end(Duration::from_secs(30)).await?;
        let begin = Instant::now();
        cluster.leader("c").await?;
        let took = begin.elapsed();
        println!("a successor led {took:?} after a graceful end");
        ensure!(took < Duration::from_secs(25), "it has waited for the Lease to end: {took:?}");
        leads(cluster, &third, 1.0).await?;
        load.more(200).await?;
        load.stop("the leader ended gracefully, at its successor").await?.none_failed()
    });
}

async fn overwrite(cluster: &Cluster, address: &str) -> Result<()> {
    let patch = Patch::Merge(json!({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}));
    cluster.api::<Ingress>().patch_status("web", &PatchParams::default(), &patch).await?;
    Ok(())
}

/// The write rights of the duties, by the name of the Role.
const WRITES: [(&str, &str); 4] = [
    (
        "lease",
        r#"[{apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [sluice-leader], verbs: [get, watch, update]},
            {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}]"#,
    ),
    ("status", r#"[{apiGroups: [networking.k8s.io], resources: [ingresses/status], verbs: [patch]}]"#),
    ("events", r#"[{apiGroups: [""], resources: [events], verbs: [create, patch]}]"#),
    ("service", r#"[{apiGroups: [""], resources: [services], resourceNames: [lb], verbs: [get]}]"#),
];

#[test]
fn revoked_write_rights_lose_no_request() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 2).await?;
        let lb = |name: &str| {
            format!(
                "{{apiVersion: v1, kind: Service, metadata: {{name: lb}}, spec: {{type: ExternalName, externalName: {name}}}}}"
            )
        };
        cluster.apply(&lb("one.example")).await?;
        let kubeconfig = cluster.account("gateway").await?;
        let reads =
            ["networking.k8s.io/ingresses", "/services", "discovery.k8s.io/endpointslices", "/secrets"];
        cluster.allow("gateway", false, &reads).await?;
        cluster.allow("gateway", true, &["networking.k8s.io/ingressclasses"]).await?;
        let pods = r#"[{apiGroups: [""], resources: [pods], verbs: [get, list]}]"#;
        cluster.allow_rules("gateway", false, "pods", pods).await?;
        for (name, rules) in WRITES {
            cluster.allow_rules("gateway", false, name, rules).await?;
        }
        let environment = ["POD_NAME=a".to_owned(), format!("POD_NAMESPACE={}", cluster.namespace)];
        let flags = [
            format!("--watch-namespace={}", cluster.namespace),
            format!("--publish-service={}/lb", cluster.namespace),
            "--election-ttl=8s".to_owned(),
        ];
        let gateway = class
            .gateway_in(
                cluster,
                &environment.each_ref().map(String::as_str),
                &kubeconfig,
                &flags.each_ref().map(String::as_str),
            )
            .await?;
        cluster.served(gateway.http, HOST, 200).await?;
        has_status(cluster, "one.example").await?;
        let load = Load::new(cluster, gateway.http, [LoadTarget::new(HOST, "web")]).start().await?;
        let is_reported = async |words: &str| {
            cluster
                .until(&format!("the gateway to report {words:?}"), async || {
                    Ok(gateway.problems(cluster).await?.contains(words).then_some(()))
                })
                .await
        };
        for (name, rules) in WRITES {
            cluster.withdraw(false, name).await?;
            let begin = Instant::now();
            let back = async || cluster.allow_rules("gateway", false, name, rules).await;
            match name {
                "lease" => {
                    is_reported("leader election: no replica writes").await?;
                    leads(cluster, &gateway, 0.0).await?;
                    back().await?;
                    leads(cluster, &gateway, 1.0).await?;
                }
                "status" => {
                    overwrite(cluster, "198.51.100.1").await?;
                    is_reported("ingresses.networking.k8s.io status").await?;
                    back().await?;
                    has_status(cluster, "one.example").await?;
                }
                "events" => {
                    cluster.apply(&class.ingress("late", HOST, "web")).await?;
                    is_reported("the same problems are in the log").await?;
                    back().await?;
                    let fields = ListParams::default().fields("involvedObject.name=late,reason=PathConflict");
                    cluster
                        .until("the Event that was refused", async || {
                            Ok(cluster.api::<Event>().list(&fields).await?.items.pop())
                        })
                        .await?;
                }
                _ => {
                    cluster.apply(&lb("two.example")).await?;
                    // A request in flight may still succeed; the next one is refused.
                    is_reported("the status of Ingresses stays as it is").await?;
                    back().await?;
                    has_status(cluster, "two.example").await?;
                }
            }
            cluster
                .until("nothing to be wrong any more", async || {
                    let problems = gateway.problems(cluster).await?;
                    let wrong = ["RightMissing", "StatusContested", "DutyFailed", "AddressUnknown"];
                    let left = wrong.iter().find(|code| problems.contains(**code));
                    ensure!(left.is_none(), "{problems}");
                    Ok(Some(()))
                })
                .await
                .with_context(|| name.to_owned())?;
            ensure!(gateway.health_status(cluster, "/healthz").await? == 200, "{name}");
            println!("the right {name} taken away and given back, and picked up, in {:?}", begin.elapsed());
        }
        load.stop("each right to write taken away and given back").await?.none_failed()
    });
}
