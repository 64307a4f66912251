//! The manifests of the documentation, applied as they are.

use std::net::IpAddr;

use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::Ingress;
use kube::Api;
use sluice_lab::harness::{TestClass, deployment, shared, status_of};

#[test]
fn the_example_serves_with_the_rights_it_names() {
    shared(async |cluster| -> Result<()> {
        let manifests = include_str!("../../../examples/cluster/sluice.yaml");
        // A reader only has to insert the name of the image.
        let image = cluster.image("sluice");
        cluster.apply(&manifests.replace("registry.example/sluice:0.1.0", &image)).await?;
        let class = TestClass { name: "sluice".into(), controller: "sluice.dev/ingress-controller".into() };
        cluster.apply(&deployment("web", 1)).await?;
        cluster.apply(&class.ingress("web", "web.example", "web")).await?;
        let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), "sluice-system");
        cluster
            .until("two gateways", async || {
                let status = deployments.get("sluice-controller").await?.status.unwrap_or_default();
                Ok((status.ready_replicas == Some(2)).then_some(()))
            })
            .await?;
        let services: Api<Service> = Api::namespaced(cluster.client.clone(), "sluice-system");
        let address = cluster
            .until("an address", async || {
                let status =
                    services.get("sluice-controller").await?.status.and_then(|status| status.load_balancer);
                let given = status.and_then(|status| status.ingress?.into_iter().next()?.ip);
                Ok(given.map(|ip| ip.parse::<IpAddr>()).transpose()?)
            })
            .await?;
        cluster.served((address, 80).into(), "web.example", 200).await?;
        cluster
            .wait::<Ingress>("web", "given the address", |ingress| {
                status_of(ingress) == [address.to_string()]
            })
            .await?;
        let logs = cluster
            .command("kubectl")
            .args(["-n", "sluice-system", "logs", "deployment/sluice-controller"])
            .output()?;
        let logs = String::from_utf8(logs.stdout)? + &String::from_utf8(logs.stderr)?;
        // A missing right would be reported there.
        ensure!(logs.contains("listening") && !logs.contains("KubernetesApi"), "{logs}");
        Ok(())
    });
}

/// The API server validates every object, without keeping it: the lab's nodes have no ports 80 and
/// 443 to give.
#[test]
fn the_api_server_accepts_the_manifests_of_distributions() {
    let manifests = [
        ("bare-metal", include_str!("../../../examples/cluster/bare-metal.yaml")),
        ("k3s", include_str!("../../../examples/cluster/k3s.yaml")),
        ("kind", include_str!("../../../examples/cluster/kind.yaml")),
        ("microk8s", include_str!("../../../examples/cluster/microk8s.yaml")),
        ("minikube", include_str!("../../../examples/cluster/minikube.yaml")),
    ];
    shared(async |cluster| -> Result<()> {
        for (distribution, manifest) in manifests {
            // A dry run creates no namespace, so the objects are those of the test's namespace.
            let own = format!("namespace: {}\n", cluster.namespace);
            let text = ["ingress-nginx", "ingress"]
                .iter()
                .fold(manifest.to_owned(), |text, name| text.replace(&format!("namespace: {name}\n"), &own));
            let file = cluster.file(&format!("{distribution}.yaml"));
            std::fs::write(&file, &text)?;
            let arguments = ["apply", "--server-side", "--dry-run=server", "-f"];
            let output = cluster.command("kubectl").args(arguments).arg(&file).output()?;
            let error = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{distribution}: {error}");
            let objects = text.lines().filter(|line| line.starts_with("kind: ")).count();
            let accepted = String::from_utf8_lossy(&output.stdout).lines().count();
            ensure!(
                accepted == objects && objects > 8,
                "{distribution}: {accepted} of {objects} objects: {error}"
            );
        }
        Ok(())
    });
}
