//! The gateway beside a cluster: what `sluice serve --manifests` needs is what kubectl prints.

use std::fs;

use anyhow::ensure;
use serde_json::Value;
use sluice_lab::harness::{GatewayProcess, deployment, shared};
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
        let dump = cluster.lab.command("kubectl").args(["get", kinds, "-A", "-o", "yaml"]).output()?;
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
