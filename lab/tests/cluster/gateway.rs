//! The gateway outside of a cluster: `sluice serve --manifests` serves the output of kubectl, and
//! `kubectl sluice` inspects a cluster with the rights of its user.

use std::fs;
use std::os::unix::fs::symlink;

use anyhow::ensure;
use serde_json::Value;
use sluice_lab::harness::{GatewayProcess, TestClass, deployment, shared};
use sluice_testing::program;

#[test]
fn a_dump_of_the_cluster_is_served() {
    shared(async |cluster| {
        cluster.apply(&deployment("web", 2)).await?;
        cluster
            .apply(
                r"
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: nginx}
spec: {controller: k8s.io/ingress-nginx}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  ingressClassName: nginx
  rules:
  - host: web.example
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}]}
",
            )
            .await?;
        cluster.available("web", 2).await?;
        cluster.endpoints("web", |all| all.iter().filter(|e| e.ready).count() == 2).await?;

        let folder = tempfile::tempdir()?;
        let kinds = "ingress,ingressclass,svc,endpointslices,secrets,configmaps,namespaces";
        let dump = cluster.command("kubectl").args(["get", kinds, "-A", "-o", "yaml"]).output()?;
        ensure!(dump.status.success(), "kubectl: {}", String::from_utf8_lossy(&dump.stderr));
        fs::write(folder.path().join("all.yaml"), dump.stdout)?;

        let folder = folder.path().display().to_string();
        let gateway = GatewayProcess::start_program(
            cluster,
            &program::find("sluice")?,
            &["serve", "--manifests", &folder],
            &["--ingress-class=nginx", "--controller-class=k8s.io/ingress-nginx"],
        )
        .await?;
        let mut pods = Vec::new();
        for _ in 0..2 {
            let answer = cluster.get(gateway.http, "web.example", "/").await?;
            ensure!(answer.status() == 200, "{answer:?}\n{}", gateway.output());
            let answer: Value = serde_json::from_slice(answer.body())?;
            ensure!(answer["namespace"] == cluster.namespace.as_str(), "{answer}");
            pods.push(answer["pod"].to_string());
        }
        assert_ne!(pods[0], pods[1], "one Pod of two was asked twice");
        assert_eq!(cluster.get(gateway.http, "other.example", "/").await?.status(), 404);
        Ok(())
    });
}

/// The old controller is a Pod with flags of ingress-nginx that only sleeps: a check takes its
/// class and settings from these flags.
#[test]
fn a_check_of_the_cluster_takes_the_flags_of_the_controller_that_runs() {
    shared(async |cluster| {
        let class = TestClass::of(cluster);
        cluster.apply(&class.manifest()).await?;
        let web = class.ingress("web", "web.example", "web");
        let bad = web.replace(
            "metadata: {",
            "metadata: {annotations: {nginx.ingress.kubernetes.io/proxy-body-size: many}, ",
        );
        ensure!(bad != web, "no place for an annotation in {web}");
        cluster.apply(&bad).await?;
        let [controller_class, ingress_class] = class.flags();
        cluster
            .apply(&format!(
                r#"
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings}}
data: {{proxy-read-timeout: soon}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: ingress-nginx-controller}}
spec:
  selector: {{matchLabels: {{app.kubernetes.io/name: ingress-nginx}}}}
  template:
    metadata: {{labels: {{app.kubernetes.io/name: ingress-nginx}}}}
    spec:
      containers:
      - name: controller
        image: shell
        command: [/bin/sh, -c, exec sleep 600]
        args: [/nginx-ingress-controller, {controller_class}, {ingress_class},
          --configmap=$(POD_NAMESPACE)/settings, --enable-ssl-chain-completion, "--v=2"]
        env: [{{name: POD_NAMESPACE, valueFrom: {{fieldRef: {{fieldPath: metadata.namespace}}}}}}]
"#
            ))
            .await?;
        cluster.available("ingress-nginx-controller", 1).await?;

        let folder = tempfile::tempdir()?;
        let plugin = folder.path().join("kubectl-sluice");
        symlink(program::find("sluice")?, &plugin)?;
        let run = |arguments: &[&str]| -> anyhow::Result<(Option<i32>, String, String)> {
            let output =
                cluster.command(&plugin).args(["-n", &cluster.namespace]).args(arguments).output()?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Ok((output.status.code(), text(&output.stdout), text(&output.stderr)))
        };
        let old = ["--deployment", "ingress-nginx-controller"];
        let (status, report, said) = run(&["check", old[0], old[1], "-o", "json"])?;
        ensure!(status == Some(1), "{status:?} {said} {report}");
        let report: Value = serde_json::from_str(&report)?;
        let problems = report["problems"].as_array().cloned().unwrap_or_default();
        for (code, word) in [
            ("AnnotationInvalid", "proxy-body-size"),
            ("KeyInvalid", "proxy-read-timeout"),
            ("FlagWithoutEffect", "--enable-ssl-chain-completion"),
        ] {
            let found =
                problems.iter().any(|problem| problem["code"] == code && problem.to_string().contains(word));
            ensure!(found, "no {code} of {word}: {report:#}");
        }
        // The annotation is removed with the field manager that applied it.
        cluster.apply(&web).await?;
        let (_, report, said) = run(&["check", "--pod", &pod_name(cluster).await?, "-o", "json"])?;
        ensure!(!report.contains("AnnotationInvalid"), "{said} {report}");

        let (status, table, said) = run(&["ingresses"])?;
        ensure!(status == Some(0), "{said}");
        let line = table.lines().find(|line| line.contains("web.example/")).unwrap_or_default();
        ensure!(line.contains(&cluster.namespace) && line.ends_with(" 0"), "{table}");
        let (status, _, said) = run(&["routes"])?;
        ensure!(status == Some(2) && said.contains("there is no running Pod with the labels"), "{said}");
        Ok(())
    });
}

async fn pod_name(cluster: &sluice_lab::harness::Cluster) -> anyhow::Result<String> {
    let pods = cluster.pods("app.kubernetes.io/name=ingress-nginx").await?;
    Ok(pods.first().and_then(|pod| pod.metadata.name.clone()).unwrap_or_default())
}
