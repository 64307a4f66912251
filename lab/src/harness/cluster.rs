//! The cluster of one test: its Kubernetes namespace, a client, and functions that wait.

use std::fmt::Debug;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Request, Response};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::time::{sleep, timeout};

use super::Provider;
use crate::client::connect;
use crate::exchange::exchange;

/// Maximum wait of a test. Long enough for a busy machine; passing tests never wait that long.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A cluster with a namespace for one test.
pub struct Cluster {
    /// The API client of the administrator.
    pub client: Client,
    /// The test's namespace.
    pub namespace: String,
    provider: Box<dyn Provider>,
    files: TempDir,
    /// Cluster-scoped objects that the test applied. They are not deleted with the namespace.
    everywhere: Mutex<Vec<(ApiResource, String)>>,
}

/// One endpoint of a Service in its EndpointSlices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointState {
    /// The address.
    pub address: IpAddr,
    /// Whether it accepts new requests.
    pub ready: bool,
    /// Whether it still responds.
    pub serving: bool,
    /// Whether its Pod is terminating.
    pub terminating: bool,
    /// The zone of its node.
    pub zone: Option<String>,
    /// The Pod.
    pub pod: Option<String>,
}

impl Cluster {
    /// Creates a namespace in a cluster and waits until it is ready for Pods.
    pub(super) async fn new(provider: impl Provider + 'static) -> Result<Self> {
        let client = connect(&provider.kubeconfig()).await?;
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"generateName": "test-"}}))?;
        let namespace = Api::all(client.clone()).create(&PostParams::default(), &namespace).await?.name_any();
        let cluster = Self {
            client,
            namespace,
            provider: Box::new(provider),
            files: tempfile::tempdir()?,
            everywhere: Mutex::default(),
        };
        let accounts = cluster.api::<ServiceAccount>();
        cluster
            .until("the namespace's ServiceAccount", async || Ok(accounts.get_opt("default").await?))
            .await?;
        Ok(cluster)
    }

    /// Returns the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.provider.kubeconfig()
    }

    /// Returns a command that runs where the cluster is reachable, with `KUBECONFIG` set and
    /// kubectl in its `PATH`.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        self.provider.command(program.as_ref())
    }

    /// Returns the image for a bare name such as `sluice`. [`Self::apply`] replaces bare names in
    /// manifests.
    pub fn image(&self, name: &str) -> String {
        self.provider.image(name)
    }

    /// Returns the path for a file of the test. Files are removed after the test unless it fails.
    pub fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Returns the API for a kind in the test's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Applies manifests: YAML documents of any kind that the API supports. Namespaced objects
    /// without a namespace are created in the test's.
    ///
    /// # Errors
    /// Returns an error if a document does not parse, or the API refuses it.
    pub async fn apply(&self, manifests: &str) -> Result<Vec<DynamicObject>> {
        let mut applied = Vec::new();
        for document in serde_yaml::Deserializer::from_str(manifests) {
            let mut value = serde_json::Value::deserialize(document)?;
            if value.is_null() {
                continue;
            }
            images(&mut value, &|name| self.provider.image(name));
            let object: DynamicObject = serde_json::from_value(value)?;
            let types = object.types.clone().context("a manifest has no apiVersion and kind")?;
            let kind = GroupVersionKind::try_from(&types)?;
            let (resource, capabilities) = pinned_kind(&self.client, &kind).await?;
            let api: Api<DynamicObject> = match capabilities.scope {
                Scope::Cluster => {
                    self.everywhere().push((resource.clone(), object.name_any()));
                    Api::all_with(self.client.clone(), &resource)
                }
                Scope::Namespaced => {
                    let namespace = object.namespace().unwrap_or_else(|| self.namespace.clone());
                    Api::namespaced_with(self.client.clone(), &namespace, &resource)
                }
            };
            let (name, how) = (object.name_any(), PatchParams::apply("test").force());
            let outcome = api.patch(&name, &how, &Patch::Apply(&object)).await;
            applied.push(outcome.with_context(|| format!("{} {name}", types.kind))?);
        }
        Ok(applied)
    }

    /// Changes an object of the test's namespace by a merge patch.
    ///
    /// # Errors
    /// Returns an error if the API refuses it.
    pub async fn merge<K>(&self, name: &str, patch: serde_json::Value) -> Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
        K::DynamicType: Default,
    {
        Ok(self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    /// Repeats `attempt` until it returns a value, and returns that. Errors count as no value yet.
    ///
    /// # Errors
    /// Returns an error if there is no value in time; the message contains `what` and the last
    /// error.
    pub async fn until<T>(&self, what: &str, attempt: impl AsyncFn() -> Result<Option<T>>) -> Result<T> {
        let end = Instant::now() + TIMEOUT;
        let mut last = String::new();
        while Instant::now() < end {
            match timeout(TIMEOUT, attempt()).await {
                Ok(Ok(Some(answer))) => return Ok(answer),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => last = format!(": {error:#}"),
                Err(_) => break,
            }
            sleep(Duration::from_millis(20)).await;
        }
        bail!("waited {} s for {what}{last}", TIMEOUT.as_secs())
    }

    /// Waits until an object fulfils a condition, and returns it.
    ///
    /// # Errors
    /// Returns an error if it does not in time.
    pub async fn wait<K>(&self, name: &str, what: &str, condition: impl Fn(&K) -> bool) -> Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
        K::DynamicType: Default,
    {
        let api = self.api::<K>();
        self.until(&format!("{name} to be {what}"), async || Ok(api.get_opt(name).await?.filter(&condition)))
            .await
    }

    /// Waits until a Deployment has rolled out its latest template to this number of available
    /// replicas, and no others.
    ///
    /// # Errors
    /// Returns an error if it has not in time.
    pub async fn available(&self, deployment: &str, replicas: i32) -> Result<Deployment> {
        self.wait(deployment, &format!("available with {replicas}"), |deployment: &Deployment| {
            let Some(status) = deployment.status.as_ref() else { return false };
            let count = |count: Option<i32>| count.unwrap_or(0) == replicas;
            status.observed_generation == deployment.metadata.generation
                && count(status.available_replicas)
                && count(status.updated_replicas)
                && count(status.replicas)
        })
        .await
    }

    /// Waits until a Pod holds the Lease of the gateways, and so writes to the cluster.
    ///
    /// # Errors
    /// Returns an error if it does not in time.
    pub async fn leader(&self, pod: &str) -> Result<()> {
        let holds =
            |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()) == Some(pod);
        self.wait("sluice-leader", &format!("held by {pod}"), holds).await.map(drop)
    }

    /// Waits until a Service's endpoints fulfil a condition, and returns them sorted by address.
    ///
    /// # Errors
    /// Returns an error if they do not in time; the message contains the last ones.
    pub async fn endpoints(
        &self,
        service: &str,
        condition: impl Fn(&[EndpointState]) -> bool,
    ) -> Result<Vec<EndpointState>> {
        self.until(&format!("the endpoints of {service}"), async || {
            let endpoints = self.endpoints_now(service).await?;
            if condition(&endpoints) {
                return Ok(Some(endpoints));
            }
            bail!("they are {endpoints:?}")
        })
        .await
    }

    /// Returns the current endpoints of a Service.
    ///
    /// # Errors
    /// Returns an error if the API request fails.
    pub async fn endpoints_now(&self, service: &str) -> Result<Vec<EndpointState>> {
        let selector = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
        let mut all = Vec::new();
        for slice in self.api::<EndpointSlice>().list(&selector).await? {
            for endpoint in slice.endpoints.unwrap_or_default() {
                let conditions = endpoint.conditions.unwrap_or_default();
                for address in &endpoint.addresses {
                    all.push(EndpointState {
                        address: address.parse()?,
                        ready: conditions.ready.unwrap_or(false),
                        serving: conditions.serving.unwrap_or(false),
                        terminating: conditions.terminating.unwrap_or(false),
                        zone: endpoint.zone.clone(),
                        pod: endpoint.target_ref.as_ref().and_then(|target| target.name.clone()),
                    });
                }
            }
        }
        all.sort_by_key(|endpoint| endpoint.address);
        Ok(all)
    }

    /// Returns the Pods of the test's namespace with a label.
    ///
    /// # Errors
    /// Returns an error if the API request fails.
    pub async fn pods(&self, label: &str) -> Result<Vec<Pod>> {
        Ok(self.api::<Pod>().list(&ListParams::default().labels(label)).await?.items)
    }

    /// Sends a GET request on a new connection and returns the complete response.
    ///
    /// # Errors
    /// Returns an error if there is no response.
    pub async fn get(&self, address: impl ToSocketAddrs, host: &str, path: &str) -> Result<Response<Bytes>> {
        let stream = TcpStream::connect(address).await?;
        let request =
            Request::get(path).header("host", host).header("connection", "close").body(Bytes::new())?;
        exchange(stream, request).await
    }

    /// Returns a kubectl command for the test's namespace.
    pub fn kubectl(&self) -> Command {
        let mut command = self.command("kubectl");
        command.arg("--namespace").arg(&self.namespace);
        command
    }

    /// Describes the content of the test's namespace, for the output of a failed test.
    pub(super) fn describe(&self) -> String {
        let output =
            self.kubectl().args(["get", "pods,services,endpointslices,ingresses", "-o", "wide"]).output();
        let pods = output.map_or_else(|e| e.to_string(), |o| String::from_utf8_lossy(&o.stdout).into_owned());
        format!("namespace {} of {}{pods}", self.namespace, self.provider.describe())
    }

    /// Deletes the objects of the test without waiting for their end.
    pub(super) async fn leave(self, well: bool) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let how = DeleteParams::default();
        let made = std::mem::take(&mut *self.everywhere());
        let removal = async {
            namespaces.delete(&self.namespace, &how).await?;
            for (resource, name) in made.iter().rev() {
                let all: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
                // A test may have deleted it itself.
                drop(all.delete(name, &how).await);
            }
            Ok::<(), kube::Error>(())
        };
        // A test may have left its lab without an API server. The lab is removed with the test
        // then.
        if !matches!(timeout(Duration::from_secs(5), removal).await, Ok(Ok(()))) {
            eprintln!("the namespace {} stays until its lab goes down", self.namespace);
        }
        if !well {
            eprintln!("what its programs have printed is in {}", self.files.keep().display());
        }
    }

    fn everywhere(&self) -> MutexGuard<'_, Vec<(ApiResource, String)>> {
        self.everywhere.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Replaces bare image names of containers.
fn images(manifest: &mut Value, image: &dyn Fn(&str) -> String) {
    match manifest {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::Array(containers) if matches!(&**name, "containers" | "initContainers") => {
                        for container in containers {
                            let bare = container["image"].as_str().filter(|name| !name.contains('/'));
                            if let Some(given) = bare.map(image) {
                                container["image"] = given.into();
                            }
                        }
                    }
                    other => images(other, image),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| images(value, image)),
        _ => {}
    }
}

/// Returns how often a Pod's containers were restarted.
pub fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.map_or(0, |all| all.iter().map(|container| container.restart_count).sum())
}

/// Returns whether a Pod is ready.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_names_of_images_are_replaced_wherever_containers_are() {
        let mut job = json!({"spec": {"template": {"spec": {
            "initContainers": [{"name": "first", "image": "shell"}],
            "containers": [{"name": "echo", "image": "echo"}, {"name": "own", "image": "registry.example/own"}],
        }}}});
        images(&mut job, &|name| format!("tests/{name}"));
        let spec = &job["spec"]["template"]["spec"];
        assert_eq!(spec["initContainers"][0]["image"], "tests/shell");
        assert_eq!(spec["containers"][0]["image"], "tests/echo");
        assert_eq!(spec["containers"][1]["image"], "registry.example/own");
    }
}
