//! The controller's duties against a real API server: leader election, the status of Ingresses,
//! Events, missing rights, and the validating webhook.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::networking::v1::Ingress;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use sluice_lab::harness::{Cluster, GatewayPods, GatewayProcess, TestClass, in_lab, shared, status_of};
use sluice_testing::certificate::TestCertificate;

const GRACE: Duration = Duration::from_secs(30);

/// Starts a gateway that identifies itself as a Pod of the test's namespace.
async fn replica(
    cluster: &Cluster,
    class: &TestClass,
    pod: &str,
    kubeconfig: &Path,
    flags: &[&str],
) -> Result<GatewayProcess> {
    let environment = [format!("POD_NAME={pod}"), format!("POD_NAMESPACE={}", cluster.namespace)];
    class.gateway_in(cluster, &environment.each_ref().map(String::as_str), kubeconfig, flags).await
}

/// Like [`replica`], with the administrator's rights.
async fn admin(cluster: &Cluster, class: &TestClass, pod: &str, flags: &[&str]) -> Result<GatewayProcess> {
    replica(cluster, class, pod, &cluster.kubeconfig(), flags).await
}

/// Creates the test's class and an Ingress `web`, without its backend.
async fn ingress(cluster: &Cluster) -> Result<TestClass> {
    let class = TestClass::of(cluster);
    cluster.apply(&class.manifest()).await?;
    cluster.apply(&class.ingress("web", "web.example", "web")).await?;
    Ok(class)
}

/// Creates the Pod as which a gateway identifies itself. It is never started.
async fn pod(cluster: &Cluster, name: &str) -> Result<()> {
    cluster
        .apply(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{app: gateway}}}}, \
             spec: {{schedulerName: none, containers: [{{name: gateway, image: none}}]}}}}"
        ))
        .await?;
    Ok(())
}

async fn has_status(cluster: &Cluster, ingress: &str, addresses: &[&str]) -> Result<()> {
    let what = format!("given the addresses {addresses:?}");
    cluster.wait::<Ingress>(ingress, &what, |ingress| status_of(ingress) == addresses).await.map(drop)
}

/// Overwrites the status of an Ingress, as another controller would.
async fn overwrite(cluster: &Cluster, ingress: &str, address: &str) -> Result<()> {
    let patch = Patch::Merge(json!({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}));
    cluster.api::<Ingress>().patch_status(ingress, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[test]
fn the_leader_writes_the_status_keeps_it_and_clears_it_at_the_end() {
    shared(async |cluster| {
        let class = ingress(cluster).await?;
        let foreign = TestClass { name: "foreign".into(), controller: "example.com/foreign".into() };
        cluster.apply(&foreign.ingress("foreign", "foreign.example", "web")).await?;
        pod(cluster, "a").await?;
        let gateway = admin(cluster, &class, "a", &["--publish-status-address=192.0.2.7"]).await?;
        has_status(cluster, "web", &["192.0.2.7"]).await?;
        cluster.apply(&class.ingress("late", "late.example", "web")).await?;
        has_status(cluster, "late", &["192.0.2.7"]).await?;
        overwrite(cluster, "web", "198.51.100.1").await?;
        has_status(cluster, "web", &["192.0.2.7"]).await?;
        // A correct status is not written again.
        let version = cluster.api::<Ingress>().get("late").await?.resource_version();
        cluster.apply(&class.ingress("last", "last.example", "web")).await?;
        has_status(cluster, "last", &["192.0.2.7"]).await?;
        ensure!(cluster.api::<Ingress>().get("late").await?.resource_version() == version);
        ensure!(
            status_of(&cluster.api::<Ingress>().get("foreign").await?).is_empty(),
            "it is of another class"
        );
        overwrite(cluster, "foreign", "198.51.100.2").await?;

        let status = gateway.end(GRACE).await?;
        ensure!(status.success(), "{status}");
        ensure!(
            status_of(&cluster.api::<Ingress>().get("web").await?).is_empty(),
            "no server answers there any more"
        );
        ensure!(status_of(&cluster.api::<Ingress>().get("foreign").await?) == ["198.51.100.2"]);
        Ok(())
    });
}

#[test]
fn a_leader_deleted_by_force_or_succeeded_clears_nothing() {
    shared(async |cluster| {
        let class = ingress(cluster).await?;
        let gateway = admin(cluster, &class, "a", &["--publish-status-address=192.0.2.7"]).await?;
        has_status(cluster, "web", &["192.0.2.7"]).await?;
        gateway.end(GRACE).await?;
        has_status(cluster, "web", &["192.0.2.7"]).await?;
        pod(cluster, "b").await?;
        pod(cluster, "c").await?;
        let gateway = admin(cluster, &class, "b", &["--publish-status-address=192.0.2.9"]).await?;
        has_status(cluster, "web", &["192.0.2.9"]).await?;
        gateway.end(GRACE).await?;
        has_status(cluster, "web", &["192.0.2.9"]).await
    });
}

#[test]
fn addresses_stay_at_shutdown_if_several_or_configured() {
    shared(async |cluster| {
        let class = ingress(cluster).await?;
        let gateway = admin(cluster, &class, "a", &["--publish-status-address=192.0.2.7,lb.example"]).await?;
        has_status(cluster, "web", &["192.0.2.7", "lb.example"]).await?;
        gateway.end(GRACE).await?;
        has_status(cluster, "web", &["192.0.2.7", "lb.example"]).await?;
        let flags = ["--publish-status-address=192.0.2.9", "--update-status-on-shutdown=false"];
        let gateway = admin(cluster, &class, "b", &flags).await?;
        has_status(cluster, "web", &["192.0.2.9"]).await?;
        gateway.end(GRACE).await?;
        has_status(cluster, "web", &["192.0.2.9"]).await?;
        let flags = ["--publish-status-address=192.0.2.1", "--update-status=false"];
        let gateway = admin(cluster, &class, "c", &flags).await?;
        cluster.leader("c").await?;
        gateway.end(GRACE).await?;
        has_status(cluster, "web", &["192.0.2.9"]).await
    });
}

#[test]
fn the_status_follows_the_service_that_is_published() {
    shared(async |cluster| {
        let class = ingress(cluster).await?;
        let service = |name: &str| {
            format!(
                "{{apiVersion: v1, kind: Service, metadata: {{name: lb}}, spec: {{type: ExternalName, externalName: {name}}}}}"
            )
        };
        let flag = format!("--publish-service={}/lb", cluster.namespace);
        let gateway = admin(cluster, &class, "a", &[&flag]).await?;
        cluster
            .until("the missing Service to be a problem", async || {
                let problems = gateway.problems(cluster).await?;
                Ok((problems.contains("AddressUnknown") && problems.contains("does not exist")).then_some(()))
            })
            .await?;
        cluster.apply(&service("one.example")).await?;
        has_status(cluster, "web", &["one.example"]).await?;
        cluster.apply(&service("two.example")).await?;
        let begin = Instant::now();
        has_status(cluster, "web", &["two.example"]).await?;
        println!("the status followed its Service in {:?}", begin.elapsed());
        cluster
            .until("the problem to be gone", async || {
                Ok((!gateway.problems(cluster).await?.contains("AddressUnknown")).then_some(()))
            })
            .await
    });
}

#[test]
fn a_released_lease_is_taken_at_once_and_an_expired_one_in_time() {
    shared(async |cluster| {
        let class = ingress(cluster).await?;
        let flags = ["--publish-status-address=192.0.2.7", "--election-ttl=8s"];
        let first = admin(cluster, &class, "a", &flags).await?;
        cluster.leader("a").await?;
        let second = admin(cluster, &class, "b", &flags).await?;
        let leads = async |gateway: &GatewayProcess, value: f64| {
            cluster
                .until("the metric of the leader", async || {
                    let shown =
                        gateway.metric(cluster, "nginx_ingress_controller_leader_election_status").await?;
                    Ok((shown == Some(value)).then_some(()))
                })
                .await
        };
        leads(&first, 1.0).await?;
        leads(&second, 0.0).await?;
        has_status(cluster, "web", &["192.0.2.7"]).await?;

        // An orderly shutdown.
        first.end(GRACE).await?;
        let begin = Instant::now();
        cluster.leader("b").await?;
        println!("a successor led {:?} after the end of its predecessor", begin.elapsed());
        leads(&second, 1.0).await?;
        has_status(cluster, "web", &["192.0.2.7"]).await?;

        // A crash.
        let third = admin(cluster, &class, "c", &flags).await?;
        leads(&third, 0.0).await?;
        let begin = Instant::now();
        second.process().end(Duration::ZERO)?;
        overwrite(cluster, "web", "198.51.100.1").await?;
        cluster.leader("c").await?;
        let took = begin.elapsed();
        println!("a successor led {took:?} after the death of its predecessor, with a Lease of 8 s");
        ensure!(took > Duration::from_secs(2), "the Lease of another was taken");
        has_status(cluster, "web", &["192.0.2.7"]).await
    });
}

#[test]
fn in_pods_the_addresses_are_those_of_their_nodes() {
    shared(async |cluster| {
        let class = ingress(cluster).await?;
        let flags = class.flags();
        let flags = [&*flags[0], &*flags[1], "--status-update-interval=5"];
        let gateway = GatewayPods::start(cluster, "gateway", 2, &flags).await?;
        let on_nodes = async |replicas: usize| {
            cluster
                .until("the status to be the nodes of the Pods", async || {
                    let pods = cluster.pods("app=gateway").await?;
                    let nodes = pods.iter().filter_map(|pod| pod.status.as_ref()?.host_ip.clone());
                    let nodes: BTreeSet<String> = nodes.collect();
                    let status = status_of(&cluster.api::<Ingress>().get("web").await?);
                    ensure!(
                        nodes.iter().eq(&status) && !status.is_empty(),
                        "nodes {nodes:?}, status {status:?}"
                    );
                    Ok((pods.len() == replicas).then_some(()))
                })
                .await
        };
        on_nodes(2).await?;
        // One of two replicas ends: the other one and the status stay.
        let patch = json!({"spec": {"replicas": 1}});
        cluster.merge::<Deployment>(&gateway.name, patch).await?;
        on_nodes(1).await
    });
}

/// Returns the Events of an object, by reason.
async fn events(cluster: &Cluster, object: &str, reason: &str) -> Result<Vec<Event>> {
    let fields = ListParams::default().fields(&format!("involvedObject.name={object},reason={reason}"));
    Ok(cluster.api::<Event>().list(&fields).await?.items)
}

#[test]
fn events_report_problems_to_the_owner_of_an_object() {
    shared(async |cluster| {
        let class = ingress(cluster).await?;
        let gateway = admin(cluster, &class, "a", &["--publish-status-address=192.0.2.7"]).await?;
        cluster.leader("a").await?;
        cluster.apply(&class.ingress("other", "web.example", "web")).await?;
        let conflict = cluster
            .until("the problem of the conflict", async || {
                Ok(events(cluster, "other", "PathConflict").await?.pop())
            })
            .await?;
        let message = conflict.message.unwrap_or_default();
        let owner = format!("is already defined in ingress {}/web", cluster.namespace);
        ensure!(message.contains(&owner) && message.contains("remove one of the two"), "{message}");
        let uid = cluster.api::<Ingress>().get("other").await?.uid();
        ensure!(conflict.involved_object.uid == uid && conflict.type_.as_deref() == Some("Warning"));
        cluster
            .until("the problem of the missing Service", async || {
                Ok(events(cluster, "web", "ServiceNotFound").await?.pop())
            })
            .await?;
        cluster.until("a Sync", async || Ok(events(cluster, "other", "Sync").await?.pop())).await?;
        let described = cluster.kubectl().args(["describe", "ingress", "other"]).output()?;
        let described = String::from_utf8_lossy(&described.stdout).into_owned();
        ensure!(described.contains("PathConflict") && described.contains("sluice"), "{described}");

        // Another leader reports the same problem with the same Event.
        gateway.end(GRACE).await?;
        let second = admin(cluster, &class, "b", &["--publish-status-address=192.0.2.7"]).await?;
        cluster
            .until("the Event to be counted", async || {
                let all = events(cluster, "other", "PathConflict").await?;
                ensure!(all.len() == 1, "{} Events", all.len());
                Ok((all[0].count == Some(2)).then_some(()))
            })
            .await?;
        second.end(GRACE).await?;
        Ok(())
    });
}

#[test]
fn rights_that_are_missing_are_named_one_by_one_and_picked_up() {
    shared(async |cluster| {
        let class = ingress(cluster).await?;
        let kubeconfig = cluster.account("gateway").await?;
        let reads =
            ["networking.k8s.io/ingresses", "/services", "discovery.k8s.io/endpointslices", "/secrets"];
        cluster.allow("gateway", false, &reads).await?;
        cluster.allow("gateway", true, &["networking.k8s.io/ingressclasses"]).await?;
        let namespace = format!("--watch-namespace={}", cluster.namespace);
        let flags = [&*namespace, "--publish-status-address=192.0.2.7"];
        let gateway = replica(cluster, &class, "a", &kubeconfig, &flags).await?;
        let expected = [
            "no right to get leases.coordination.k8s.io sluice-leader",
            "no right to update leases.coordination.k8s.io sluice-leader",
            "no right to create leases.coordination.k8s.io",
            "no right to patch ingresses/status.networking.k8s.io",
            "no right to create events",
            "no right to patch events",
        ];
        cluster
            .until("the missing rights to be named", async || {
                let problems = gateway.problems(cluster).await?;
                match expected.iter().find(|text| !problems.contains(**text)) {
                    Some(missing) => bail!("{missing}: {problems}"),
                    None => Ok(Some(())),
                }
            })
            .await?;
        let lease = r#"[{apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [sluice-leader], verbs: [get, watch, update]},
            {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}]"#;
        cluster.allow_rules("gateway", false, "lease", lease).await?;
        cluster.leader("a").await?;
        cluster
            .until("the problem of the refused write", async || {
                let problems = gateway.problems(cluster).await?;
                Ok((problems.contains("ingresses.networking.k8s.io status")).then_some(()))
            })
            .await?;
        let writes = r#"[{apiGroups: [networking.k8s.io], resources: [ingresses/status], verbs: [patch]},
            {apiGroups: [""], resources: [pods], verbs: [get, list]},
            {apiGroups: [""], resources: [events], verbs: [create, patch]}]"#;
        cluster.allow_rules("gateway", false, "writes", writes).await?;
        has_status(cluster, "web", &["192.0.2.7"]).await?;
        cluster.apply(&class.ingress("other", "web.example", "web")).await?;
        cluster.until("an Event", async || Ok(events(cluster, "other", "PathConflict").await?.pop())).await?;
        cluster
            .until("no right to be missing", async || {
                let problems = gateway.problems(cluster).await?;
                ensure!(!problems.contains("RightMissing"), "{problems}");
                Ok(Some(()))
            })
            .await
    });
}

/// Configures the API server to send Ingresses of the test's namespace to a gateway of the lab.
async fn webhook(cluster: &Cluster, port: u16, authority: &str) -> Result<()> {
    let namespace = &cluster.namespace;
    let bundle = STANDARD.encode(authority);
    cluster
        .apply(&format!(
            r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {{name: {namespace}}}
webhooks:
- name: validate.sluice.dev
  rules: [{{apiGroups: [networking.k8s.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [ingresses]}}]
  namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}
  clientConfig: {{url: "https://10.244.0.1:{port}/networking/v1/ingresses", caBundle: "{bundle}"}}
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
"#
        ))
        .await?;
    Ok(())
}

#[test]
fn the_webhook_refuses_warns_and_reloads_its_certificate() {
    in_lab(async |cluster, _| {
        let class = ingress(cluster).await?;
        let folder = tempfile::tempdir()?;
        let certificate = TestCertificate::new(&["10.244.0.1"]);
        let write = |certificate: &TestCertificate| -> Result<()> {
            std::fs::write(folder.path().join("tls.crt"), &certificate.pem)?;
            std::fs::write(folder.path().join("tls.key"), &certificate.key_pem)?;
            Ok(())
        };
        write(&certificate)?;
        let port = sluice_testing::ports::reserve();
        let file = |name: &str| folder.path().join(name).display().to_string();
        let flags = [
            format!("--validating-webhook=10.244.0.1:{port}"),
            format!("--validating-webhook-certificate={}", file("tls.crt")),
            format!("--validating-webhook-key={}", file("tls.key")),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let gateway = class.gateway(cluster, &flags).await?;
        webhook(cluster, port, &certificate.pem).await?;

        let apply = |manifest: &str, name: &str| -> Result<(bool, String)> {
            let path = folder.path().join(name);
            std::fs::write(&path, manifest)?;
            let output = cluster.kubectl().arg("apply").arg("-f").arg(&path).output()?;
            let text = [output.stdout, output.stderr].concat();
            Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
        };
        let conflict = class.ingress("other", "web.example", "web");
        let refused = cluster
            .until("the API server to ask", async || {
                let (taken, text) = apply(&conflict, "conflict.yaml")?;
                match taken {
                    true => {
                        cluster.kubectl().args(["delete", "ingress", "other"]).output()?;
                        Ok(None)
                    }
                    false => Ok(Some(text)),
                }
            })
            .await?;
        println!("{refused}");
        let owner = format!("is already defined in ingress {}/web", cluster.namespace);
        ensure!(refused.contains("denied the request") && refused.contains(&owner), "{refused}");

        let (taken, text) = apply(&class.ingress("new", "new.example", "none"), "new.yaml")?;
        ensure!(taken && text.contains("Warning") && text.contains("ServiceNotFound"), "{text}");
        let foreign = TestClass { name: "foreign".into(), controller: "example.com/foreign".into() };
        let (taken, text) = apply(&foreign.ingress("foreign", "web.example", "web"), "foreign.yaml")?;
        ensure!(taken, "it is another's: {text}");
        let reviews = gateway.metric(cluster, "nginx_ingress_controller_check_errors").await?;
        ensure!(reviews.context("no refused reviews")? >= 1.0);

        // Another certificate without a restart: the API server trusts only the new one.
        let other = TestCertificate::new(&["10.244.0.1"]);
        write(&other)?;
        webhook(cluster, port, &other.pem).await?;
        cluster
            .until("the new certificate to be shown", async || {
                let (taken, text) = apply(&class.ingress("later", "later.example", "web"), "later.yaml")?;
                ensure!(taken, "{text}");
                Ok(Some(()))
            })
            .await?;
        let took = gateway.metric(cluster, "nginx_ingress_controller_admission_tested_duration").await?;
        println!("the last verdict took {took:?} s");
        cluster.kubectl().args(["delete", "validatingwebhookconfiguration", &cluster.namespace]).output()?;
        Ok(())
    });
}
