//! The gateway under test: as a process inside the lab, or as Pods.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Service;
use sluice_testing::gateway::Addresses;
use sluice_testing::program;

use super::{Cluster, Program};
use crate::allocator::load_balancer_address;

/// A gateway process that listens on the lab's loopback.
pub struct GatewayProcess {
    /// Address for HTTP.
    pub http: SocketAddr,
    /// Address for HTTPS.
    pub https: SocketAddr,
    /// Address of `/healthz` and `/metrics`.
    pub health: SocketAddr,
    /// Address of `/routes` and `/problems`.
    pub admin: SocketAddr,
    program: Mutex<Program>,
}

/// A gateway as a Deployment and a LoadBalancer Service of the same name.
#[derive(Clone, Debug)]
pub struct GatewayPods {
    /// The name of all its objects.
    pub name: String,
    /// The Service's address.
    pub address: IpAddr,
}

impl GatewayProcess {
    /// Starts the gateway with the administrator's rights and waits until it is ready.
    ///
    /// # Errors
    /// Returns an error if it is not built, exits, or does not become ready; the message contains
    /// its output.
    pub async fn start(cluster: &Cluster, arguments: &[&str]) -> Result<Self> {
        Self::start_with(cluster, &cluster.kubeconfig(), arguments).await
    }

    /// Like [`Self::start`], with another kubeconfig, such as one that uses a
    /// [`crate::wire::Wire`].
    ///
    /// # Errors
    /// See [`Self::start`].
    pub async fn start_with(cluster: &Cluster, kubeconfig: &Path, arguments: &[&str]) -> Result<Self> {
        let gateway = Self::begin(cluster, kubeconfig, arguments)?;
        gateway.ready(cluster).await?;
        Ok(gateway)
    }

    /// Like [`Self::start_with`], without waiting.
    ///
    /// # Errors
    /// Returns an error if it is not built or cannot be started.
    pub fn begin(cluster: &Cluster, kubeconfig: &Path, arguments: &[&str]) -> Result<Self> {
        let program = program::find("sluice")?;
        let kubeconfig = kubeconfig.to_str().context("a lab's paths are text")?;
        Self::begin_program(cluster, &program, &["serve", "--kubeconfig", kubeconfig], arguments)
    }

    /// Like [`Self::start`], with any program that has the gateway's port flags.
    ///
    /// # Errors
    /// See [`Self::start`].
    pub async fn start_program(
        cluster: &Cluster,
        program: &Path,
        first: &[&str],
        arguments: &[&str],
    ) -> Result<Self> {
        let gateway = Self::begin_program(cluster, program, first, arguments)?;
        gateway.ready(cluster).await?;
        Ok(gateway)
    }

    fn begin_program(cluster: &Cluster, program: &Path, first: &[&str], arguments: &[&str]) -> Result<Self> {
        let addresses = Addresses::reserve();
        let own = addresses.flags();
        let all =
            first.iter().copied().chain(own.iter().map(String::as_str)).chain(arguments.iter().copied());
        let program = Mutex::new(Program::start(cluster, program, all)?);
        let Addresses { http, https, healthz: health, admin } = addresses;
        Ok(Self { http, https, health, admin, program })
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// Returns an error if it exits or does not become ready; the message contains its output.
    pub async fn ready(&self, cluster: &Cluster) -> Result<()> {
        let ready = cluster
            .until("the gateway to be ready", async || {
                // Gives up at once: a process that has exited cannot become ready.
                if let Err(error) = self.program().check() {
                    return Ok(Some(Err(error)));
                }
                Ok((self.health_status(cluster, "/healthz").await? == 200).then_some(Ok(())))
            })
            .await;
        match ready.and_then(|outcome| outcome) {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.output())),
        }
    }

    /// Returns the status of a path on its health listener.
    ///
    /// # Errors
    /// Returns an error if the gateway does not respond.
    pub async fn health_status(&self, cluster: &Cluster, path: &str) -> Result<u16> {
        Ok(cluster.get(self.health, "health", path).await?.status().as_u16())
    }

    /// Returns the sum of a metric over all its labels. `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the gateway does not respond, or if its response is not text.
    pub async fn metric(&self, cluster: &Cluster, name: &str) -> Result<Option<f64>> {
        let answer = cluster.get(self.health, "health", "/metrics").await?;
        let text = std::str::from_utf8(answer.body())?;
        let values = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']))?;
            rest.rsplit_once(' ')?.1.parse::<f64>().ok()
        });
        Ok(values.reduce(|sum, value| sum + value))
    }

    /// Returns all problems as JSON.
    ///
    /// # Errors
    /// Returns an error if the gateway does not respond, or if its response is not text.
    pub async fn problems(&self, cluster: &Cluster) -> Result<String> {
        let answer = cluster.get(self.admin, "localhost", "/problems").await?;
        Ok(std::str::from_utf8(answer.body())?.to_owned())
    }

    /// Waits until its output contains a text. A thread writes the program log, so a line follows
    /// its event.
    ///
    /// # Errors
    /// Returns an error if it does not in time.
    pub async fn await_output(&self, cluster: &Cluster, text: &str) -> Result<()> {
        let what = format!("{text:?} in the output");
        cluster.until(&what, async || Ok(self.output().contains(text).then_some(()))).await
    }

    /// Returns its output so far.
    pub fn output(&self) -> String {
        self.program().output()
    }

    /// Returns its process.
    pub fn process(&self) -> crate::process::Process {
        self.program().process()
    }

    fn program(&self) -> MutexGuard<'_, Program> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends SIGTERM and waits until it has exited.
    ///
    /// # Errors
    /// Returns an error if it takes longer than `grace`.
    pub async fn end(self, grace: Duration) -> Result<std::process::ExitStatus> {
        self.program.into_inner().unwrap_or_else(PoisonError::into_inner).end(grace).await
    }
}

impl GatewayPods {
    /// Deploys the gateway and waits until all replicas are ready and the Service has an address.
    /// The Pods have full access to the cluster.
    ///
    /// # Errors
    /// Returns an error if the API refuses something, or the Pods do not become available.
    pub async fn start(cluster: &Cluster, name: &str, replicas: u32, arguments: &[&str]) -> Result<Self> {
        Self::start_image(cluster, name, ("sluice", 10254), replicas, arguments).await
    }

    /// Like [`Self::start`], with any image that listens on port 80 and serves `/healthz` on the
    /// given port.
    ///
    /// # Errors
    /// See [`Self::start`].
    pub async fn start_image(
        cluster: &Cluster,
        name: &str,
        image: (&str, u16),
        replicas: u32,
        arguments: &[&str],
    ) -> Result<Self> {
        cluster.apply(&manifests(&cluster.namespace, name, image, replicas, arguments)).await?;
        cluster.available(name, i32::try_from(replicas)?).await?;
        let service = cluster
            .wait::<Service>(name, "given an address", |service| load_balancer_address(service).is_some())
            .await?;
        let address = load_balancer_address(&service).context("the Service was given an address")?;
        Ok(Self { name: name.to_owned(), address: address.into() })
    }
}

fn manifests(
    namespace: &str,
    name: &str,
    (image, health): (&str, u16),
    replicas: u32,
    arguments: &[&str],
) -> String {
    let arguments = serde_json::json!(arguments);
    format!(
        r#"
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {name}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: "{namespace}-{name}"}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}
subjects: [{{kind: ServiceAccount, name: {name}, namespace: {namespace}}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      serviceAccountName: {name}
      containers:
      - name: gateway
        image: {image}
        args: {arguments}
        env:
        - {{name: PORT, value: "80"}}
        - {{name: POD_NAME, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}
        - {{name: POD_NAMESPACE, valueFrom: {{fieldRef: {{fieldPath: metadata.namespace}}}}}}
        ports: [{{name: http, containerPort: 80}}, {{name: https, containerPort: 443}}]
        readinessProbe: {{httpGet: {{path: /healthz, port: {health}}}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec:
  type: LoadBalancer
  selector: {{app: {name}}}
  ports: [{{name: http, port: 80, targetPort: http}}, {{name: https, port: 443, targetPort: https}}]
"#
    )
}
