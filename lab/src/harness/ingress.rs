//! Ingresses of a test. IngressClasses are cluster-scoped and tests share a lab, so each test has a
//! class named after its namespace, and a gateway that serves only this class.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Response;
use k8s_openapi::api::networking::v1::Ingress;
use serde_json::{Value, json};

use super::{Cluster, GatewayProcess, deployment, graceful_deployment};
use crate::wire::Wire;

/// An IngressClass of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestClass {
    /// The name of the class.
    pub name: String,
    /// `spec.controller`.
    pub controller: String,
}

impl TestClass {
    /// Returns the class of a test's namespace, not yet applied.
    pub fn of(cluster: &Cluster) -> Self {
        let name = cluster.namespace.clone();
        Self { controller: format!("sluice.dev/{name}"), name }
    }

    /// Returns another class of the same controller, not yet applied.
    pub fn sibling(&self, suffix: &str) -> Self {
        Self { name: format!("{}-{suffix}", self.name), controller: self.controller.clone() }
    }

    /// Returns the class as a manifest.
    pub fn manifest(&self) -> String {
        let Self { name, controller } = self;
        format!(
            "{{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {{name: {name}}}, spec: {{controller: \
             {controller}}}}}"
        )
    }

    /// Returns the flags of a gateway that serves this class.
    pub fn flags(&self) -> [String; 2] {
        [format!("--controller-class={}", self.controller), format!("--ingress-class={}", self.name)]
    }

    /// Creates the test's class with echo servers behind the host `web.example`: Ingress, Service
    /// and Deployment `web`. Waits until all are ready.
    ///
    /// # Errors
    /// Returns an error if the API refuses something, or the Pods do not become ready.
    pub async fn web(cluster: &Cluster, replicas: u32) -> Result<Self> {
        Self::behind(cluster, &deployment("web", replicas), replicas).await
    }

    /// Like [`Self::web`], with Pods that keep serving for some seconds after their deletion
    /// ([`graceful_deployment`]).
    ///
    /// # Errors
    /// See [`Self::web`].
    pub async fn graceful_web(cluster: &Cluster, replicas: u32, seconds: u32) -> Result<Self> {
        Self::behind(cluster, &graceful_deployment("web", replicas, seconds), replicas).await
    }

    async fn behind(cluster: &Cluster, web: &str, replicas: u32) -> Result<Self> {
        let class = Self::of(cluster);
        cluster.apply(&class.manifest()).await?;
        cluster.apply(web).await?;
        cluster.apply(&class.ingress("web", "web.example", "web")).await?;
        cluster.available("web", replicas.try_into()?).await?;
        let ready = replicas as usize;
        cluster.endpoints("web", |all| all.iter().filter(|e| e.ready).count() == ready).await?;
        Ok(class)
    }

    /// Starts a gateway process for this class with the administrator's rights and waits until it
    /// is ready.
    ///
    /// # Errors
    /// See [`GatewayProcess::start`].
    pub async fn gateway(&self, cluster: &Cluster, arguments: &[&str]) -> Result<GatewayProcess> {
        let gateway = self.begin_gateway(cluster, &cluster.kubeconfig(), arguments)?;
        gateway.ready(cluster).await?;
        Ok(gateway)
    }

    /// Like [`Self::gateway`], with a wire between the gateway and the API server.
    ///
    /// # Errors
    /// See [`Cluster::api_wire`] and [`GatewayProcess::start`].
    pub async fn wired_gateway(&self, cluster: &Cluster) -> Result<(Wire, GatewayProcess)> {
        let (wire, kubeconfig) = cluster.api_wire().await?;
        let gateway = self.begin_gateway(cluster, &kubeconfig, &[])?;
        gateway.ready(cluster).await?;
        Ok((wire, gateway))
    }

    /// Starts a gateway process for this class with any kubeconfig, without waiting.
    ///
    /// # Errors
    /// See [`GatewayProcess::begin`].
    pub fn begin_gateway(
        &self,
        cluster: &Cluster,
        kubeconfig: &Path,
        arguments: &[&str],
    ) -> Result<GatewayProcess> {
        let flags = self.flags();
        let all: Vec<&str> = flags.iter().map(String::as_str).chain(arguments.iter().copied()).collect();
        GatewayProcess::begin(cluster, kubeconfig, &all)
    }

    /// Like [`Self::gateway`], with environment variables given as `NAME=VALUE`. With `POD_NAME`
    /// and `POD_NAMESPACE` the gateway behaves as in a Pod.
    ///
    /// # Errors
    /// See [`GatewayProcess::start`].
    pub async fn gateway_in(
        &self,
        cluster: &Cluster,
        environment: &[&str],
        kubeconfig: &Path,
        arguments: &[&str],
    ) -> Result<GatewayProcess> {
        let (program, kubeconfig) =
            (sluice_testing::program::find("sluice")?, kubeconfig.display().to_string());
        let program = program.display().to_string();
        let mut first = environment.to_vec();
        first.extend([&*program, "serve", "--kubeconfig", &*kubeconfig]);
        let flags = self.flags();
        let all: Vec<&str> = flags.iter().map(String::as_str).chain(arguments.iter().copied()).collect();
        GatewayProcess::start_program(cluster, Path::new("/usr/bin/env"), &first, &all).await
    }

    /// Returns an Ingress of this class, from a host to port 80 of a Service.
    pub fn ingress(&self, name: &str, host: &str, service: &str) -> String {
        format!(
            r"
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: {name}}}
spec:
  ingressClassName: {class}
  rules:
  - host: {host}
    http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: {service}, port: {{number: 80}}}}}}}}]}}
",
            class = self.name
        )
    }
}

impl Cluster {
    /// Changes the host of an Ingress of [`TestClass::ingress`], with the backend `web`.
    ///
    /// # Errors
    /// Returns an error if the API refuses it.
    pub async fn move_ingress(&self, name: &str, host: &str) -> Result<()> {
        let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
        let paths = json!([{"path": "/", "pathType": "Prefix", "backend": backend}]);
        let rules = json!([{"host": host, "http": {"paths": paths}}]);
        self.merge::<Ingress>(name, json!({"spec": {"rules": rules}})).await?;
        Ok(())
    }

    /// Waits until a gateway responds with this status for a host, and returns the response.
    ///
    /// # Errors
    /// Returns an error if it does not in time.
    pub async fn served(&self, gateway: SocketAddr, host: &str, status: u16) -> Result<Response<Bytes>> {
        self.until(&format!("{host} to be answered with {status}"), async || {
            let answer = self.get(gateway, host, "/").await?;
            ensure!(answer.status() == status, "it is {}", answer.status());
            Ok(Some(answer))
        })
        .await
    }
}

/// Returns the addresses in the status of an Ingress.
pub fn status_of(ingress: &Ingress) -> Vec<String> {
    let balancer = ingress.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let all = balancer.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
    all.filter_map(|one| one.ip.clone().or(one.hostname.clone())).collect()
}

/// Returns the Pod of the echo server that responded.
///
/// # Errors
/// Returns an error if the response is not that of an echo server.
pub fn pod_of(answer: &Response<Bytes>) -> Result<String> {
    let body: Value =
        serde_json::from_slice(answer.body()).with_context(|| format!("no echo server: {answer:?}"))?;
    Ok(body["pod"].as_str().context("an answer without a Pod")?.to_owned())
}
