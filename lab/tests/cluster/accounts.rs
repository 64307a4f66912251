//! ServiceAccounts of tests have exactly the rights that the test grants.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use sluice_lab::client::connect;
use sluice_lab::harness::shared;

/// A namespace that exists in every cluster and belongs to no test.
const ELSEWHERE: &str = "default";

fn refused<T>(outcome: kube::Result<T>) -> Result<()> {
    match outcome {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        Err(error) => Err(error).context("it was to be refused"),
        Ok(_) => anyhow::bail!("it was not refused"),
    }
}

#[test]
fn an_account_writes_everywhere_what_its_rules_name_and_nothing_else() {
    shared(async |cluster| {
        let kubeconfig = cluster.account("writer").await?;
        let rules = r#"[{apiGroups: [""], resources: [configmaps], verbs: [create]},
            {apiGroups: [networking.k8s.io], resources: [ingresses/status], verbs: [patch]}]"#;
        cluster.allow_rules("writer", true, "writes", rules).await?;
        let may = async |verb: &str, resource: &str| cluster.may("writer", verb, resource, ELSEWHERE).await;
        let known = async || Ok(may("create", "/configmaps").await?.then_some(()));
        cluster.until("the API server to know the right", known).await?;
        for (verb, resource, allowed) in [
            ("patch", "networking.k8s.io/ingresses/status", true),
            ("update", "networking.k8s.io/ingresses/status", false),
            ("patch", "networking.k8s.io/ingresses", false),
            ("get", "/configmaps", false),
            ("delete", "/configmaps", false),
            ("create", "/secrets", false),
        ] {
            ensure!(may(verb, resource).await? == allowed, "{verb} {resource}");
        }

        let maps = |client: Client| Api::<ConfigMap>::namespaced(client, ELSEWHERE);
        let writer = maps(connect(&kubeconfig).await?);
        let name = format!("{}-written", cluster.namespace);
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        let written = writer.create(&PostParams::default(), &map).await;
        maps(cluster.client.clone()).delete(&name, &DeleteParams::default()).await?;
        written?;
        refused(writer.list(&ListParams::default()).await)?;
        refused(writer.delete(&name, &DeleteParams::default()).await)?;

        cluster.withdraw(true, "writes").await?;
        let lost = async || Ok((!may("create", "/configmaps").await?).then_some(()));
        cluster.until("the right to have gone", lost).await?;
        refused(writer.create(&PostParams::default(), &map).await)
    });
}
