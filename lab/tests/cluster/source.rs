//! The gateway with a Kubernetes API: applied objects are served, by a process with a kubeconfig
//! and by a Pod with a ServiceAccount.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use sluice_lab::harness::{GatewayPods, TestClass, deployment, pod_of, shared};

#[test]
fn an_ingress_is_served_edited_and_gone() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 2).await?;
        let gateway = class.gateway(cluster, &[]).await?;
        let answer = cluster.get(gateway.http, "web.example", "/").await?;
        ensure!(answer.status() == 200, "ready, and yet {answer:?}\n{}", gateway.output());
        let other = cluster.get(gateway.http, "web.example", "/").await?;
        ensure!(pod_of(&answer)? != pod_of(&other)?, "one Pod of two was asked twice");
        ensure!(cluster.get(gateway.http, "other.example", "/").await?.status() == 404);

        cluster.move_ingress("web", "new.example").await?;
        cluster.served(gateway.http, "new.example", 200).await?;
        ensure!(cluster.get(gateway.http, "web.example", "/").await?.status() == 404);

        // Endpoints follow the Pods.
        let scaled = json!({"spec": {"replicas": 1}});
        cluster.merge::<k8s_openapi::api::apps::v1::Deployment>("web", scaled).await?;
        let left = cluster.endpoints("web", |all| all.len() == 1).await?.remove(0).pod;
        cluster
            .until("only the Pod that is left to answer", async || {
                for _ in 0..4 {
                    let answer = cluster.get(gateway.http, "new.example", "/").await?;
                    ensure!(Some(pod_of(&answer)?) == left);
                }
                Ok(Some(()))
            })
            .await?;

        // The Service is deleted and created again.
        cluster.api::<Service>().delete("web", &DeleteParams::default()).await?;
        cluster.served(gateway.http, "new.example", 503).await?;
        cluster.apply(&deployment("web", 1)).await?;
        cluster.served(gateway.http, "new.example", 200).await?;

        cluster.api::<Ingress>().delete("web", &DeleteParams::default()).await?;
        cluster.served(gateway.http, "new.example", 404).await?;
        Ok(())
    });
}

#[test]
fn a_pod_serves_with_its_service_account() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let flags = class.flags();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let gateway = GatewayPods::start(cluster, "gateway", 2, &flags).await?;
        let address = (gateway.address, 80).into();
        cluster.served(address, "web.example", 200).await?;
        cluster.move_ingress("web", "late.example").await?;
        cluster.served(address, "late.example", 200).await?;
        Ok(())
    });
}

#[test]
fn only_our_classes_are_served_and_a_new_one_counts_at_once() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let late = class.sibling("late");
        cluster.apply(&late.ingress("late", "late.example", "web")).await?;
        let gateway = class.gateway(cluster, &[]).await?;
        cluster.served(gateway.http, "web.example", 200).await?;
        ensure!(cluster.get(gateway.http, "late.example", "/").await?.status() == 404);
        cluster.apply(&late.manifest()).await?;
        cluster.served(gateway.http, "late.example", 200).await?;
        Ok(())
    });
}

#[test]
fn the_config_map_that_a_flag_names_is_read_and_no_other() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        let map = |name: &str, code: u16| {
            format!(
                "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{http-redirect-code: \"{code}\"}}}}"
            )
        };
        cluster.apply(&map("settings", 307)).await?;
        cluster.apply(&map("other", 301)).await?;
        let forced = json!({"nginx.ingress.kubernetes.io/force-ssl-redirect": "true"});
        cluster.merge::<Ingress>("web", json!({"metadata": {"annotations": forced}})).await?;
        let flag = format!("--configmap={}/settings", cluster.namespace);
        let gateway = class.gateway(cluster, &[&flag]).await?;
        cluster.served(gateway.http, "web.example", 307).await?;
        cluster.apply(&map("settings", 302)).await?;
        cluster.served(gateway.http, "web.example", 302).await?;
        Ok(())
    });
}

#[test]
fn without_a_source_the_program_lists_the_choices() {
    shared(async |cluster| {
        let program = sluice_testing::program::find("sluice")?;
        let run = |flags: &[&str]| -> Result<String> {
            let output = cluster.command(&program).arg("serve").args(flags).output()?;
            ensure!(output.status.code() == Some(2), "{output:?}");
            Ok(String::from_utf8(output.stderr)?)
        };
        let said = run(&["--kubeconfig="])?;
        for part in ["--manifests", "--kubeconfig", "KUBERNETES_SERVICE_HOST"] {
            ensure!(said.contains(part), "{said}");
        }
        let said = run(&["--kubeconfig=/does/not/exist"])?;
        ensure!(said.contains("/does/not/exist"), "{said}");
        let said = run(&["--apiserver-host=10.0.0.1:6443"])?;
        ensure!(said.contains("https://"), "{said}");
        Ok(())
    });
}

#[test]
fn problems_of_objects_in_the_cluster_are_reported() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 1).await?;
        cluster.apply(&class.ingress("lost", "lost.example", "nowhere")).await?;
        let gateway = class.gateway(cluster, &[]).await?;
        cluster.served(gateway.http, "lost.example", 503).await?;
        let problems: Value = serde_json::from_str(&gateway.problems(cluster).await?)?;
        // The gateway sees the whole cluster, objects of other tests included.
        let ours = |problem: &&Value| problem["object"]["namespace"] == cluster.namespace.as_str();
        let problems: Vec<&Value> = problems.as_array().context("no list")?.iter().filter(ours).collect();
        ensure!(problems.len() == 1, "{problems:?}");
        ensure!(problems[0].to_string().contains("nowhere"), "{problems:?}");
        Ok(())
    });
}
