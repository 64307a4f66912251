//! Identities with exactly the rights that a test grants, in its namespace or the whole cluster.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use http::Uri;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::config::{Kubeconfig, NamedAuthInfo};
use tokio::net::lookup_host;

use super::Cluster;
use crate::wire::Wire;

impl Cluster {
    /// Returns a wire in front of the API server, and an administrator's kubeconfig that uses it.
    ///
    /// # Errors
    /// Returns an error if the API server has no address, none can be listened on, or the
    /// kubeconfig cannot be written.
    pub async fn api_wire(&self) -> Result<(Wire, PathBuf)> {
        let mut config = Kubeconfig::read_from(self.kubeconfig())?;
        let wire = wired(&mut config).await?;
        let path = self.write("wire", &config)?;
        Ok((wire, path))
    }

    /// Creates a ServiceAccount without rights in the test's namespace, and returns its kubeconfig.
    ///
    /// # Errors
    /// Returns an error if the API refuses it, or the kubeconfig cannot be written.
    pub async fn account(&self, name: &str) -> Result<PathBuf> {
        let config = self.account_config(name).await?;
        self.write(name, &config)
    }

    /// Like [`Self::account`], with a wire between the account and the API server.
    ///
    /// # Errors
    /// See [`Self::account`] and [`Self::api_wire`].
    pub async fn wired_account(&self, name: &str) -> Result<(Wire, PathBuf)> {
        let mut config = self.account_config(name).await?;
        let wire = wired(&mut config).await?;
        let path = self.write(name, &config)?;
        Ok((wire, path))
    }

    async fn account_config(&self, name: &str) -> Result<Kubeconfig> {
        self.apply(&format!("{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: {name}}}}}")).await?;
        let token = self.kubectl().args(["create", "token", name, "--duration=2h"]).output()?;
        ensure!(token.status.success(), "kubectl: {}", String::from_utf8_lossy(&token.stderr));
        let token = String::from_utf8(token.stdout)?;
        let mut config = Kubeconfig::read_from(self.kubeconfig())?;
        let current = current_context(&config)?;
        let user: NamedAuthInfo =
            serde_json::from_value(serde_json::json!({"name": name, "user": {"token": token.trim()}}))?;
        config.contexts[current].context.as_mut().context("an empty context")?.user = Some(name.to_owned());
        config.auth_infos = vec![user];
        Ok(config)
    }

    fn write(&self, name: &str, config: &Kubeconfig) -> Result<PathBuf> {
        let path = self.file(&format!("{name}-{:08x}.kubeconfig", fastrand::u32(..)));
        std::fs::write(&path, serde_json::to_string(config)?).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Grants a ServiceAccount of the test's namespace the right to list and watch resources, given
    /// as `GROUP/RESOURCE`: in the namespace by a Role, or everywhere by a ClusterRole.
    ///
    /// # Errors
    /// Returns an error if the API refuses it.
    pub async fn allow(&self, account: &str, everywhere: bool, resources: &[&str]) -> Result<()> {
        for resource in resources {
            let (group, plural) = resource.split_once('/').context("GROUP/RESOURCE")?;
            let rules =
                format!(r#"[{{apiGroups: ["{group}"], resources: [{plural}], verbs: [list, watch]}}]"#);
            self.allow_rules(account, everywhere, &role_to_read(account, plural), &rules).await?;
        }
        Ok(())
    }

    /// Grants a ServiceAccount of the test's namespace the rights of `rules`, in the notation of
    /// roles: in the namespace by a Role, or everywhere by a ClusterRole. `name` is for
    /// [`Self::withdraw`].
    ///
    /// # Errors
    /// Returns an error if the API refuses it.
    pub async fn allow_rules(&self, account: &str, everywhere: bool, name: &str, rules: &str) -> Result<()> {
        let kind = if everywhere { "ClusterRole" } else { "Role" };
        let (namespace, role) = (&self.namespace, self.role(everywhere, name));
        self.apply(&format!(
            r"
apiVersion: rbac.authorization.k8s.io/v1
kind: {kind}
metadata: {{name: {role}}}
rules: {rules}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {kind}Binding
metadata: {{name: {role}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {kind}, name: {role}}}
subjects: [{{kind: ServiceAccount, name: {account}, namespace: {namespace}}}]
"
        ))
        .await?;
        Ok(())
    }

    /// Revokes a right of [`Self::allow`] and waits until that is effective. Open watches continue.
    ///
    /// # Errors
    /// Returns an error if the API rejects it, or still permits the action after the time limit.
    pub async fn deny(&self, account: &str, everywhere: bool, resource: &str) -> Result<()> {
        let (_, plural) = resource.split_once('/').context("GROUP/RESOURCE")?;
        self.withdraw(everywhere, &role_to_read(account, plural)).await?;
        let namespace = if everywhere { "" } else { &self.namespace };
        self.until(&format!("{account} to have lost {resource}"), async || {
            Ok((!self.may(account, "watch", resource, namespace).await?).then_some(()))
        })
        .await
    }

    /// Revokes the rights of [`Self::allow_rules`]. The API server may permit requests for a moment
    /// longer.
    ///
    /// # Errors
    /// Returns an error if the API refuses it.
    pub async fn withdraw(&self, everywhere: bool, name: &str) -> Result<()> {
        let (name, how) = (self.role(everywhere, name), DeleteParams::default());
        match everywhere {
            true => drop(Api::<ClusterRoleBinding>::all(self.client.clone()).delete(&name, &how).await?),
            false => drop(self.api::<RoleBinding>().delete(&name, &how).await?),
        }
        Ok(())
    }

    /// Returns whether a ServiceAccount of the test's namespace has a right on a resource, given as
    /// `GROUP/RESOURCE` or `GROUP/RESOURCE/SUBRESOURCE`, in a namespace, or everywhere if that is
    /// empty.
    ///
    /// # Errors
    /// Returns an error if the API request fails.
    pub async fn may(&self, account: &str, verb: &str, resource: &str, namespace: &str) -> Result<bool> {
        let (group, plural) = resource.split_once('/').context("GROUP/RESOURCE")?;
        let (plural, subresource) = plural.split_once('/').unwrap_or((plural, ""));
        let attributes = ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(group.to_owned()),
            resource: Some(plural.to_owned()),
            subresource: Some(subresource.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ResourceAttributes::default()
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{}:{account}", self.namespace)),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        Ok(matches!(answer.status, Some(SubjectAccessReviewStatus { allowed: true, .. })))
    }

    /// Returns the name of a role. ClusterRoles of all tests share one name space.
    fn role(&self, everywhere: bool, name: &str) -> String {
        if everywhere { format!("{}-{name}", self.namespace) } else { name.to_owned() }
    }
}

fn role_to_read(account: &str, plural: &str) -> String {
    format!("{account}-reads-{plural}")
}

/// Puts a wire in front of the API server of a kubeconfig.
async fn wired(config: &mut Kubeconfig) -> Result<Wire> {
    let current = current_context(config)?;
    let name = config.contexts[current].context.as_ref().context("an empty context")?.cluster.clone();
    let cluster = config.clusters.iter_mut().find(|cluster| cluster.name == name);
    let cluster = cluster.and_then(|cluster| cluster.cluster.as_mut()).context("no cluster")?;
    let server: Uri = cluster.server.as_deref().context("no server")?.parse()?;
    let host = server.host().context("a server without a host")?.trim_matches(['[', ']']).to_owned();
    let target = lookup_host((&*host, server.port_u16().unwrap_or(443))).await?.next();
    let target = target.with_context(|| format!("{host} has no address"))?;
    let wire = Wire::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), target).await?;
    cluster.server = Some(format!("https://{}", wire.address()));
    // The certificate is still that of the API server.
    cluster.tls_server_name.get_or_insert(host);
    Ok(wire)
}

fn current_context(config: &Kubeconfig) -> Result<usize> {
    let name = config.current_context.as_ref().context("a kubeconfig without a current context")?;
    let found = config.contexts.iter().position(|context| context.name == *name);
    found.with_context(|| format!("the kubeconfig has no context {name}"))
}
