//! Identities with no more rights than a test gives them.

use std::path::PathBuf;

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::Api;
use kube::api::DeleteParams;

use super::Cluster;
use crate::addresses::{API_PORT, GATEWAY};
use crate::wire::Wire;

impl Cluster {
    /// Makes a ServiceAccount of the test's namespace, without any rights, and a kubeconfig for it.
    ///
    /// # Errors
    /// When the API refuses it, or the kubeconfig cannot be written.
    pub async fn account(&self, name: &str) -> Result<PathBuf> {
        self.account_at(name, &format!("https://{GATEWAY}:{API_PORT}")).await
    }

    /// The same with a wire between the user of the kubeconfig and the API server.
    ///
    /// # Errors
    /// As [`Self::account`], and when no address can be listened on.
    pub async fn wired_account(&self, name: &str) -> Result<(Wire, PathBuf)> {
        let listen = SocketAddr::from((GATEWAY, 0));
        let wire = Wire::new(listen, SocketAddr::from((GATEWAY, API_PORT))).await?;
        let kubeconfig = self.account_at(name, &format!("https://{}", wire.address())).await?;
        Ok((wire, kubeconfig))
    }

    async fn account_at(&self, name: &str, server: &str) -> Result<PathBuf> {
        self.apply(&format!("{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: {name}}}}}")).await?;
        let token = self.kubectl().args(["create", "token", name, "--duration=2h"]).output()?;
        ensure!(token.status.success(), "kubectl: {}", String::from_utf8_lossy(&token.stderr));
        let token = String::from_utf8(token.stdout)?;
        let layout = self.lab.layout();
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": {
                "server": server,
                "certificate-authority": layout.pki("ca.crt"),
            }}],
            "users": [{"name": name, "user": {"token": token.trim()}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": name}}],
        });
        let path = layout.kubeconfig(&format!("{}-{name}", self.namespace));
        std::fs::write(&path, kubeconfig.to_string()).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Gives a ServiceAccount of the test's namespace the right to list and watch resources, as `GROUP/RESOURCE`: in
    /// the namespace by a Role, or everywhere by a ClusterRole.
    ///
    /// # Errors
    /// When the API refuses it.
    pub async fn allow(&self, account: &str, everywhere: bool, resources: &[&str]) -> Result<()> {
        let kind = if everywhere { "ClusterRole" } else { "Role" };
        let namespace = &self.namespace;
        for resource in resources {
            let (group, resource) = resource.split_once('/').context("GROUP/RESOURCE")?;
            let name = format!("{namespace}-{account}-{resource}");
            self.apply(&format!(
                r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: {kind}
metadata: {{name: {name}}}
rules: [{{apiGroups: ["{group}"], resources: [{resource}], verbs: [list, watch]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {kind}Binding
metadata: {{name: {name}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {kind}, name: {name}}}
subjects: [{{kind: ServiceAccount, name: {account}, namespace: {namespace}}}]
"#
            ))
            .await?;
        }
        Ok(())
    }

    /// Gives a ServiceAccount of the test's namespace rights by rules as roles have them, in the namespace.
    ///
    /// # Errors
    /// When the API refuses it.
    pub async fn allow_rules(&self, account: &str, name: &str, rules: &str) -> Result<()> {
        let namespace = &self.namespace;
        self.apply(&format!(
            r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: {name}}}
rules: {rules}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: {name}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}
subjects: [{{kind: ServiceAccount, name: {account}, namespace: {namespace}}}]
"#
        ))
        .await?;
        Ok(())
    }

    /// Takes a right of [`Self::allow`] away, and waits until the API server knows it. Watches that are open go on.
    ///
    /// # Errors
    /// When the API refuses it, or does not know it in time.
    pub async fn deny(&self, account: &str, everywhere: bool, resource: &str) -> Result<()> {
        let (_, plural) = resource.split_once('/').context("GROUP/RESOURCE")?;
        let name = format!("{}-{account}-{plural}", self.namespace);
        let how = DeleteParams::default();
        match everywhere {
            true => drop(Api::<ClusterRoleBinding>::all(self.client.clone()).delete(&name, &how).await?),
            false => drop(self.api::<RoleBinding>().delete(&name, &how).await?),
        }
        let (group, plural) = resource.split_once('/').context("GROUP/RESOURCE")?;
        let full = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
        let user = format!("system:serviceaccount:{}:{account}", self.namespace);
        self.until(&format!("{account} to have lost {resource}"), async || {
            let output = self.kubectl().args(["auth", "can-i", "watch", &full, "--as", &user]).output()?;
            Ok((output.stdout.trim_ascii() == b"no").then_some(()))
        })
        .await
    }
}
