//! Identities with no more rights than a test gives them.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::Cluster;
use crate::addresses::{API_PORT, GATEWAY};

impl Cluster {
    /// Makes a ServiceAccount of the test's namespace, without any rights, and a kubeconfig for it.
    ///
    /// # Errors
    /// When the API refuses it, or the kubeconfig cannot be written.
    pub async fn account(&self, name: &str) -> Result<PathBuf> {
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
                "server": format!("https://{GATEWAY}:{API_PORT}"),
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
}
