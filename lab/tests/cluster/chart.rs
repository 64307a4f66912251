//! The Helm chart on a real API: every object is accepted, and Helm installs, upgrades and
//! uninstalls a gateway that runs with exactly the rights of the chart.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use sluice_lab::allocator::load_balancer_address;
use sluice_lab::harness::load::{Load, LoadTarget};
use sluice_lab::harness::{Cluster, TestClass, shared, status_of};
use sluice_testing::certificate::TestCertificate;

const HOST: &str = "web.example";
const WEBHOOK_SECRET: &str = "gateway-sluice-admission";

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/sluice")
}

/// Runs a program in the lab and returns its output.
fn run(cluster: &Cluster, program: &str, arguments: &[&str], input: &str) -> Result<String> {
    let mut child = cluster
        .command(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    child.stdin.take().context("a pipe")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "{program} {arguments:?}: {}", said(&output.stderr));
    Ok(said(&output.stdout))
}

/// Runs Helm for the release `gateway` in the test's namespace, with values in YAML.
pub(super) fn helm(cluster: &Cluster, command: &str, values: &str) -> Result<String> {
    let chart = chart();
    let chart = chart.to_str().context("a path")?;
    let arguments = [
        command,
        "gateway",
        chart,
        "--namespace",
        &cluster.namespace,
        "--wait",
        "--timeout",
        "90s",
        "--values",
        "-",
    ];
    run(cluster, "helm", &arguments, values)
}

fn uninstall(cluster: &Cluster) -> Result<String> {
    let arguments = ["uninstall", "gateway", "--namespace", &cluster.namespace, "--wait", "--timeout", "90s"];
    run(cluster, "helm", &arguments, "")
}

/// Returns values for the test's own class. The grace period is short, because the lab's load
/// balancers react at once. Ingresses of other tests in this lab are not reviewed.
pub(super) fn values(cluster: &Cluster, class: &TestClass, more: &str) -> String {
    format!(
        "controller:
  image: {{repository: \"{}\"}}
  ingressClassResource: {{name: {}, controllerValue: {}}}
  ingressClass: {}
  shutdownGracePeriod: 3
  admissionWebhooks: {{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {}}}}}}}
{more}",
        cluster.image("sluice"),
        class.name,
        class.controller,
        class.name,
        cluster.namespace
    )
}

/// Returns the address of the gateway's Service.
async fn address(cluster: &Cluster) -> Result<SocketAddr> {
    let given = |service: &Service| load_balancer_address(service).is_some();
    let service = cluster.wait::<Service>("gateway-sluice-controller", "given an address", given).await?;
    Ok((load_balancer_address(&service).context("an address")?, 80).into())
}

/// Scales the gateway and waits for this number of Pods, including terminating ones.
async fn scale(cluster: &Cluster, replicas: usize) -> Result<()> {
    let to = format!("--replicas={replicas}");
    let arguments = ["scale", "deployment/gateway-sluice-controller", "--namespace", &cluster.namespace, &to];
    run(cluster, "kubectl", &arguments, "")?;
    cluster
        .until(&format!("{replicas} Pods"), async || {
            let pods = cluster.pods("app.kubernetes.io/component=controller").await?;
            Ok((pods.len() == replicas).then_some(()))
        })
        .await
}

/// Returns the gateway's Pods that are not terminating.
pub(super) async fn pods(cluster: &Cluster) -> Result<Vec<Pod>> {
    let all = cluster.pods("app.kubernetes.io/component=controller").await?;
    Ok(all.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect())
}

async fn names(cluster: &Cluster) -> Result<Vec<String>> {
    let mut names: Vec<String> = pods(cluster).await?.iter().map(ResourceExt::name_any).collect();
    names.sort();
    Ok(names)
}

/// Returns the gateway's reports of missing rights; empty if there are none.
async fn refused_rights(cluster: &Cluster) -> Result<String> {
    let mut refused = String::new();
    for pod in names(cluster).await? {
        let output = cluster.kubectl().args(["logs", &pod]).output()?;
        let log = String::from_utf8(output.stdout)?;
        ensure!(log.contains("listening"), "no log of {pod}: {log}");
        refused
            .extend(log.lines().filter(|line| line.contains("forbidden") || line.contains("KubernetesApi")));
    }
    Ok(refused)
}

/// CRDs of other projects, with schemas that accept any object.
const FOREIGN: [(&str, &str, &str); 5] = [
    ("cert-manager.io/v1", "Certificate", "certificates"),
    ("cert-manager.io/v1", "Issuer", "issuers"),
    ("monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors"),
    ("monitoring.coreos.com/v1", "PrometheusRule", "prometheusrules"),
    ("keda.sh/v1alpha1", "ScaledObject", "scaledobjects"),
];

#[test]
fn the_api_server_accepts_every_object() {
    shared(async |cluster| {
        for (api, kind, plural) in FOREIGN {
            let (group, version) = api.split_once('/').context("GROUP/VERSION")?;
            let singular = kind.to_lowercase();
            cluster
                .apply(&format!(
                    r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{kind: {kind}, plural: {plural}, singular: {singular}}}
  versions:
  - name: {version}
    served: true
    storage: true
    schema: {{openAPIV3Schema: {{type: object, properties: {{spec: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}}}}}
"
                ))
                .await?;
        }
        for namespace in ["edge", "shop", "certificates", "monitoring"] {
            cluster
                .apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}"))
                .await?;
        }
        for (_, _, plural) in FOREIGN {
            cluster
                .until(plural, async || {
                    let output = cluster.kubectl().args(["get", plural]).output()?;
                    Ok(output.status.success().then_some(()))
                })
                .await?;
        }
        let chart = chart();
        let mut kinds = 0;
        for entry in fs::read_dir(chart.join("ci"))? {
            let path = entry?.path();
            let (chart, path) = (chart.to_str().context("a path")?, path.to_str().context("a path")?);
            let arguments = ["template", "gateway", chart, "--namespace", "edge", "--values", path];
            let rendered = run(cluster, "helm", &arguments, "")?;
            let arguments = ["apply", "--server-side", "--dry-run=server", "-f", "-"];
            let accepted = run(cluster, "kubectl", &arguments, &rendered).with_context(|| path.to_owned())?;
            let objects = rendered.lines().filter(|line| line.starts_with("kind: ")).count();
            ensure!(accepted.lines().count() == objects, "{path}: of {objects} objects: {accepted}");
            kinds += objects;
        }
        ensure!(kinds > 80, "only {kinds} objects were rendered");
        Ok(())
    });
}

#[test]
fn helm_installs_upgrades_under_load_and_leaves_nothing() {
    shared(async |cluster| {
        let class = TestClass::of(cluster);
        cluster.apply(&sluice_lab::harness::deployment("web", 2)).await?;
        cluster.available("web", 2).await?;
        // With the hook of ingress-nginx values. In the image the program is called /wait-shutdown.
        let hook = "  lifecycle: {preStop: {exec: {command: [/sluice, wait-shutdown]}}}\n";
        helm(cluster, "install", &values(cluster, &class, &format!("  replicaCount: 2\n{hook}")))?;
        cluster.apply(&class.ingress("web", HOST, "web")).await?;
        let address = address(cluster).await?;
        cluster.served(address, HOST, 200).await?;
        // An Ingress created after the gateway gets the address of the gateway's Service.
        let expected = address.ip().to_string();
        cluster
            .wait::<Ingress>("web", "reported its address", |ingress| status_of(ingress).contains(&expected))
            .await?;
        let refused = refused_rights(cluster).await?;
        ensure!(refused.is_empty(), "{refused}");
        for pod in pods(cluster).await? {
            let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
            ensure!(account.as_deref() == Some("gateway-sluice"), "{account:?}");
        }

        // An upgrade with another template and one more Pod, under load.
        let before = names(cluster).await?;
        let load = Load::new(cluster, address, [LoadTarget::new(HOST, "web")]).start().await?;
        let changed =
            values(cluster, &class, "  replicaCount: 3\n  podAnnotations: {example.com/changed: once}\n");
        helm(cluster, "upgrade", &changed)?;
        let gone = async || {
            let pods = cluster.pods("app.kubernetes.io/component=controller").await?;
            Ok((pods.len() == 3 && pods.iter().all(|pod| !before.contains(&pod.name_any()))).then_some(()))
        };
        cluster.until("the old Pods to have gone", gone).await?;
        load.more(200).await?;
        load.stop("helm upgrade of 2 gateway Pods to 3 others").await?.none_failed()?;

        // A setting takes effect without a new Pod.
        let before = names(cluster).await?;
        helm(cluster, "upgrade", &format!("{changed}  config: {{force-ssl-redirect: true}}\n"))?;
        cluster.served(address, HOST, 308).await?;
        ensure!(names(cluster).await? == before, "a setting has started new Pods");

        // The last Pod removes the address from the status while it has the right to
        // (docs/install.md).
        for replicas in [1, 0] {
            scale(cluster, replicas).await?;
        }
        cluster.wait::<Ingress>("web", "without an address", |ingress| status_of(ingress).is_empty()).await?;

        uninstall(cluster)?;
        let kinds = "all,configmaps,serviceaccounts,secrets,roles,rolebindings,clusterroles,clusterrolebindings,\
                     ingressclasses,poddisruptionbudgets,validatingwebhookconfigurations,leases";
        let selector = format!("app.kubernetes.io/instance=gateway,helm.sh/chart={}", chart_label()?);
        // Pods of the release still complete running requests.
        cluster
            .until("nothing to be left", async || {
                let left = cluster.kubectl().args(["get", kinds, "-l", &selector, "-o", "name"]).output()?;
                let left = String::from_utf8(left.stdout)?;
                // Cluster-scoped objects may belong to a concurrent test.
                let others = |name: &&str| name.contains("test-") && !name.contains(&cluster.namespace);
                let own: Vec<&str> = left.lines().filter(|name| !others(name)).collect();
                ensure!(own.is_empty(), "{own:?}");
                Ok(Some(()))
            })
            .await?;
        // A Job created the certificate of the webhook, which is deleted with the webhook.
        let secrets = cluster.api::<Secret>();
        cluster
            .until("the webhook's Secret to have gone", async || {
                Ok(secrets.get_opt(WEBHOOK_SECRET).await?.is_none().then_some(()))
            })
            .await?;
        // Includes a Lease recreated by a Pod, which would have no labels.
        let leases = cluster.api::<Lease>();
        let none = async || Ok(leases.list(&ListParams::default()).await?.items.is_empty().then_some(()));
        cluster.until("the Lease to have gone", none).await?;
        let deployments = cluster.api::<Deployment>().list(&ListParams::default()).await?;
        ensure!(deployments.items.len() == 1, "only the backend is left");
        Ok(())
    });
}

/// Returns the value of `helm.sh/chart` of the chart's objects.
fn chart_label() -> Result<String> {
    let text = fs::read_to_string(chart().join("Chart.yaml"))?;
    let version = text.lines().find_map(|line| line.strip_prefix("version: ")).context("a version")?;
    Ok(format!("sluice-{version}"))
}

/// A Job creates the certificate, and an upgrade keeps it: reviews work before and after. An old
/// one is renewed by an upgrade; meanwhile every change is reviewed or refused, never admitted
/// unreviewed.
#[test]
fn an_ingress_that_would_be_rejected_is_refused_with_the_reason() {
    shared(async |cluster| {
        let class = TestClass::of(cluster);
        let good = class.ingress("web", HOST, "web");
        let bad = good.replace(
            "metadata: {",
            "metadata: {annotations: {nginx.ingress.kubernetes.io/limit-rps: many}, ",
        );
        ensure!(bad != good, "no place for an annotation in {good}");
        let apply = |manifest: &str| {
            run(cluster, "kubectl", &["apply", "--namespace", &cluster.namespace, "-f", "-"], manifest)
        };
        let reviewed = || -> Result<()> {
            let refused = format!("{:#}", apply(&bad).err().context("this was not refused")?);
            ensure!(refused.contains("denied the request") && refused.contains("limit-rps"), "{refused}");
            apply(&good).map(drop)
        };
        let changed = |mark: &str| {
            values(cluster, &class, &format!("  podAnnotations: {{example.com/changed: {mark}}}\n"))
        };
        let secret = async || cluster.api::<Secret>().get(WEBHOOK_SECRET).await;
        let certificate = async || -> Result<_> {
            secret().await?.data.and_then(|data| data.get("tls.crt").cloned()).context("a certificate")
        };
        helm(cluster, "install", &values(cluster, &class, ""))?;
        let before = certificate().await?;
        reviewed()?;
        helm(cluster, "upgrade", &changed("once"))?;
        reviewed()?;
        ensure!(certificate().await? == before, "the upgrade has made another certificate");
        let owners = secret().await?.metadata.owner_references.unwrap_or_default();
        ensure!(owners.len() == 1 && owners[0].kind == "ValidatingWebhookConfiguration", "{owners:?}");

        // A certificate of the same program, with nine months of its year elapsed.
        age(cluster).await?;
        let aged = certificate().await?;
        cluster.until("the Pods to show the old certificate", async || reviewed().map(Some)).await?;
        helm(cluster, "upgrade", &changed("twice"))?;
        ensure!(certificate().await? != aged, "the upgrade has kept an old certificate");
        // Pods with the old certificate and those with the new one are trusted at any time.
        reviewed()?;
        uninstall(cluster)?;
        // No webhook exists any more.
        apply(&bad)?;
        Ok(())
    });
}

/// Stores a certificate with less than a third of its lifetime left in the webhook's Secret, and
/// makes the API server trust it.
async fn age(cluster: &Cluster) -> Result<()> {
    let service = "gateway-sluice-controller-admission";
    let namespace = &cluster.namespace;
    let hosts = [service.to_owned(), format!("{service}.{namespace}"), format!("{service}.{namespace}.svc")];
    let month = Duration::from_secs(30 * 24 * 60 * 60);
    let now = SystemTime::now();
    let old =
        TestCertificate::with_life(&hosts.each_ref().map(String::as_str), now - 9 * month, now + 3 * month);
    let data = serde_json::json!({"data": {
        "tls.crt": STANDARD.encode(&old.pem),
        "tls.key": STANDARD.encode(&old.key_pem),
        "ca.crt": STANDARD.encode(&old.pem),
    }});
    cluster.merge::<Secret>(WEBHOOK_SECRET, data).await?;
    let trusted = serde_json::json!({"webhooks": [
        {"name": "validate.ingresses.sluice.dev", "clientConfig": {"caBundle": STANDARD.encode(&old.pem)}}
    ]});
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client.clone());
    let name = format!("{namespace}-gateway-sluice-admission");
    webhooks.patch(&name, &PatchParams::default(), &Patch::Strategic(trusted)).await?;
    Ok(())
}

/// With `failurePolicy: Fail` and no gateway, an API server with a webhook for every Ingress
/// refused those of all controllers.
#[test]
fn only_ingresses_of_served_classes_depend_on_the_gateway() {
    shared(async |cluster| {
        let class = TestClass::of(cluster);
        let apply = |manifest: &str| {
            run(cluster, "kubectl", &["apply", "--namespace", &cluster.namespace, "-f", "-"], manifest)
        };
        let named = |name: &str| class.ingress(name, HOST, "web");
        let field = format!("  ingressClassName: {}\n", class.name);
        let classless = |name: &str| named(name).replace(&field, "");
        let annotated = |name: &str, text: &str| {
            let annotation = format!("metadata: {{annotations: {{kubernetes.io/ingress.class: {text}}}, ");
            classless(name).replace("metadata: {", &annotation)
        };
        // An invalid Ingress that was stored before, with a finalizer.
        let invalid = named("invalid").replace(
            "metadata: {",
            "metadata: {finalizers: [example.com/hold], annotations: {nginx.ingress.kubernetes.io/limit-rps: many}, ",
        );
        apply(&invalid)?;
        helm(cluster, "install", &values(cluster, &class, ""))?;
        let kubectl = |arguments: &[&str]| {
            run(cluster, "kubectl", &[arguments, &["--namespace", &cluster.namespace]].concat(), "")
        };
        let label = kubectl(&["label", "ingress", "invalid", "a=b"]).err().context("it is still invalid")?;
        ensure!(format!("{label:#}").contains("denied the request"), "{label:#}");
        kubectl(&["delete", "ingress", "invalid", "--wait=false"])?;
        kubectl(&[
            "patch",
            "ingress",
            "invalid",
            "--type=merge",
            "-p",
            "{\"metadata\":{\"finalizers\":null}}",
        ])?;
        let ingresses = cluster.api::<Ingress>();
        let gone = async || Ok(ingresses.get_opt("invalid").await?.is_none().then_some(()));
        cluster.until("the Ingress that is being deleted to have gone", gone).await?;

        // No gateway responds any more.
        scale(cluster, 0).await?;
        let refused = |manifest: &str| -> Result<()> {
            let message = apply(manifest).err().with_context(|| format!("not refused: {manifest}"))?;
            ensure!(format!("{message:#}").contains("failed calling webhook"), "{message:#}");
            Ok(())
        };
        refused(&named("one"))?;
        refused(&annotated("two", &class.name))?;
        apply(&named("three").replace(&field, "  ingressClassName: somebody-else\n"))?;
        apply(&annotated("four", "somebody-else"))?;
        apply(&classless("five"))?;
        // The API server applies a changed configuration after a moment.
        helm(
            cluster,
            "upgrade",
            &values(cluster, &class, "  replicaCount: 0\n  watchIngressWithoutClass: true\n"),
        )?;
        cluster
            .until("Ingresses without a class to be reviewed", async || Ok(refused(&classless("six")).ok()))
            .await?;
        refused(&annotated("seven", "\"\""))?;
        apply(&annotated("eight", "somebody-else"))?;
        uninstall(cluster)?;
        Ok(())
    });
}

/// A chart with the Deployment and the Service of ingress-nginx, as far as an upgrade depends on
/// them.
const INGRESS_NGINX: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}-ingress-nginx-controller}
spec:
  selector: {app.kubernetes.io/name: ingress-nginx, app.kubernetes.io/instance: {{ .Release.Name }}, app.kubernetes.io/component: controller}
  ports: [{name: http, port: 80, targetPort: http}]
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}-ingress-nginx-controller
  labels:
    helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
    app.kubernetes.io/instance: {{ .Release.Name }}
    app.kubernetes.io/component: controller
    app.kubernetes.io/name: ingress-nginx
spec:
  selector: {matchLabels: {app.kubernetes.io/name: ingress-nginx, app.kubernetes.io/instance: {{ .Release.Name }}, app.kubernetes.io/component: controller}}
  template:
    metadata: {labels: {app.kubernetes.io/name: ingress-nginx, app.kubernetes.io/instance: {{ .Release.Name }}, app.kubernetes.io/component: controller}}
    spec:
      containers:
      - name: controller
        image: {{ .Values.image }}
        ports: [{name: http, containerPort: 8080}]
        env: [{name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}]
        readinessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 1}
"#;

/// Helm applies Services first. Their selectors had changed when the API server refused the change
/// of the Deployment's, so the Service selected no Pod.
#[test]
fn an_upgrade_that_would_change_a_selector_changes_nothing() {
    shared(async |cluster| {
        let class = TestClass::of(cluster);
        let old = cluster.file("ingress-nginx");
        fs::create_dir_all(old.join("templates"))?;
        fs::write(old.join("Chart.yaml"), "{apiVersion: v2, name: ingress-nginx, version: 4.15.1}")?;
        fs::write(old.join("templates/controller.yaml"), INGRESS_NGINX)?;
        let image = format!("image={}", cluster.image("echo"));
        let old = old.to_str().context("a path")?;
        let release = ["install", "gateway", old, "--namespace", &cluster.namespace];
        run(cluster, "helm", &[&release[..], &["--wait", "--timeout", "90s", "--set", &image]].concat(), "")?;
        let service = "gateway-ingress-nginx-controller";
        let served = async || cluster.endpoints(service, |all| all.iter().any(|one| one.ready)).await;
        let before = served().await?;

        for (more, fix) in [
            ("", "set nameOverride=ingress-nginx, and fullnameOverride as before"),
            ("fullnameOverride: gateway-ingress-nginx\n", "select no Pod; set nameOverride=ingress-nginx"),
            (
                "fullnameOverride: gateway-ingress-nginx\nnameOverride: other\n",
                "select no Pod; set nameOverride=ingress-nginx",
            ),
        ] {
            let refused = helm(cluster, "upgrade", &values(cluster, &class, more));
            let refused = refused.err().with_context(|| format!("this was not refused: {more}"))?;
            ensure!(format!("{refused:#}").contains(fix), "{more}: {refused:#}");
            let now = cluster.endpoints_now(service).await?;
            ensure!(now == before, "{more}: the endpoints were {before:?} and are {now:?}");
        }

        let kept = "nameOverride: ingress-nginx\n";
        helm(cluster, "upgrade", &values(cluster, &class, kept))?;
        served().await?;
        let pods: Vec<String> = names(cluster).await?;
        let replaced = async || {
            let now = cluster.endpoints_now(service).await?;
            Ok(now.iter().all(|one| one.pod.as_ref().is_some_and(|pod| pods.contains(pod))).then_some(()))
        };
        cluster.until("the endpoints to be Pods of Sluice", replaced).await?;
        // Nor may a later upgrade change them.
        let refused =
            helm(cluster, "upgrade", &values(cluster, &class, "fullnameOverride: gateway-ingress-nginx\n"));
        let refused = refused.err().context("the selector would have changed")?;
        ensure!(format!("{refused:#}").contains("set nameOverride=ingress-nginx"), "{refused:#}");
        uninstall(cluster)?;
        Ok(())
    });
}

/// Helm does not adopt foreign objects: a Lease of ingress-nginx, or of a gateway installed
/// otherwise.
#[test]
fn a_lease_that_a_program_created_does_not_prevent_the_installation() {
    shared(async |cluster| {
        let class = TestClass::of(cluster);
        let lease =
            "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: gateway-sluice-leader}}";
        cluster.apply(lease).await?;
        helm(cluster, "install", &values(cluster, &class, ""))?;
        let held = |lease: &Lease| {
            lease
                .spec
                .as_ref()
                .is_some_and(|spec| spec.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty()))
        };
        cluster.wait::<Lease>("gateway-sluice-leader", "held by a Pod", held).await?;
        helm(
            cluster,
            "upgrade",
            &values(cluster, &class, "  podAnnotations: {example.com/changed: once}\n"),
        )?;
        uninstall(cluster)?;
        let left = cluster.api::<Lease>().get_opt("gateway-sluice-leader").await?;
        ensure!(left.is_some(), "it was none of the release");
        Ok(())
    });
}

/// With Roles only: one namespace is served, and exactly one certificate of another one is read.
#[test]
fn a_gateway_without_rights_to_the_cluster_serves_its_namespace() {
    shared(async |cluster| {
        let class = TestClass::of(cluster);
        let shop = format!("{}-shop", cluster.namespace);
        cluster.apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {shop}}}}}")).await?;
        let in_shop = |manifests: &str| {
            let manifests = manifests.to_owned();
            run(cluster, "kubectl", &["apply", "--namespace", &shop, "-f", "-"], &manifests)
        };
        in_shop(&sluice_lab::harness::deployment("web", 1))?;
        in_shop(&class.ingress("web", HOST, "web"))?;
        // The same host in a namespace that is not served would give another response.
        cluster.apply(&class.ingress("web", "elsewhere.example", "web")).await?;
        let more = format!(
            "  scope: {{enabled: true, namespace: {shop}}}\n  extraArgs: {{default-ssl-certificate: \
             {}/wildcard}}\nrbac: {{scope: true}}\n",
            cluster.namespace
        );
        helm(cluster, "install", &values(cluster, &class, &more))?;
        let address = address(cluster).await?;
        cluster.served(address, HOST, 200).await?;
        cluster.served(address, "elsewhere.example", 404).await?;
        let user = format!("system:serviceaccount:{}:gateway-sluice", cluster.namespace);
        for (resource, allowed) in [
            ("secrets/wildcard", true),
            ("secrets/other", false),
            ("configmaps/gateway-sluice-controller", true),
        ] {
            let output =
                cluster.kubectl().args(["auth", "can-i", "list", resource, "--as", &user]).output()?;
            ensure!((output.stdout.trim_ascii() == b"yes") == allowed, "{resource}");
        }
        let refused = refused_rights(cluster).await?;
        // IngressClasses are the only kind that it reads if permitted and can do without.
        ensure!(!refused.contains("secrets") && !refused.contains("configmaps"), "{refused}");
        uninstall(cluster)?;
        run(cluster, "kubectl", &["delete", "namespace", &shop, "--wait=false"], "")?;
        Ok(())
    });
}
