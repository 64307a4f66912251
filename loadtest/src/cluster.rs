//! Thousands of objects in the API of a lab: Ingress n routes `host-n.example` to Service n. Its
//! EndpointSlice is written by this program and contains addresses of the lab's loopback, where two
//! backends respond on separate ports.

use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use kube::api::PostParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sluice_lab::client::connect;
use sluice_lab::lab::Lab;
use sluice_testing::certificate::TestCertificate;
use sluice_testing::manifest::{nginx_class, service};

use crate::manifest::{ingress, slice};

/// Number of concurrent writes while the cluster grows.
const AT_ONCE: usize = 32;

/// The addresses of endpoints. The API rejects those of 127.0.0.0/8, so these are added to the
/// lab's loopback.
const ENDPOINTS: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 98, 0, 1), 16);

/// The objects in a lab.
pub struct Cluster {
    /// The API client.
    pub client: Client,
    ports: [u16; 2],
    endpoints: usize,
    count: usize,
}

impl Cluster {
    /// Creates an IngressClass and nothing else. `ports` are those of the two backends; each
    /// Service gets this number of `endpoints`.
    ///
    /// # Errors
    /// The API rejects an object, or the addresses cannot be added to the lab's loopback.
    pub async fn new(lab: &Lab, ports: [u16; 2], endpoints: usize) -> anyhow::Result<Self> {
        let (first, length) = ENDPOINTS;
        let range = format!("{first}/{length}");
        let output =
            lab.command("ip").args(["address", "add", &range, "dev", "lo"]).output().context("ip")?;
        anyhow::ensure!(output.status.success(), "ip: {}", String::from_utf8_lossy(&output.stderr));
        let client = connect(&lab.kubeconfig()).await?;
        let class: IngressClass = serde_yaml::from_str(&nginx_class())?;
        Api::all(client.clone()).create(&PostParams::default(), &class).await?;
        Ok(Self { client, ports, endpoints, count: 0 })
    }

    /// Returns the number of Ingresses.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Adds Ingresses with Services and EndpointSlices up to this number.
    ///
    /// # Errors
    /// The API refuses one.
    pub async fn grow(&mut self, count: usize) -> anyhow::Result<()> {
        let this = &*self;
        stream::iter(self.count..count)
            .map(|number| async move {
                let name = name(number);
                this.create::<Service>(&service(&name)).await?;
                this.create::<EndpointSlice>(&this.slice(number, 0)).await?;
                this.create::<Ingress>(&ingress(&name, &[&host(number)], &name, None)).await?;
                anyhow::Ok(())
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        self.count = self.count.max(count);
        Ok(())
    }

    /// Directs Service n to one of the two backends.
    ///
    /// # Errors
    /// The API refuses it.
    pub async fn point(&self, number: usize, backend: usize) -> anyhow::Result<String> {
        self.replace::<EndpointSlice>(&self.slice(number, backend)).await
    }

    /// Routes host n to another Service.
    ///
    /// # Errors
    /// The API refuses it.
    pub async fn route(&self, number: usize, service: usize) -> anyhow::Result<String> {
        self.replace::<Ingress>(&ingress(&name(number), &[&host(number)], &name(service), None)).await
    }

    /// Adds an Ingress with a new host.
    ///
    /// # Errors
    /// The API refuses it.
    pub async fn add(&self, name_and_host: &str, to: usize, secret: Option<&str>) -> anyhow::Result<String> {
        self.create::<Ingress>(&ingress(name_and_host, &[name_and_host], &name(to), secret)).await
    }

    /// Adds a Secret.
    ///
    /// # Errors
    /// The API refuses it.
    pub async fn add_secret(&self, name: &str, certificate: &TestCertificate) -> anyhow::Result<String> {
        self.create::<Secret>(&certificate.secret(name)).await
    }

    /// Replaces the certificate in a Secret.
    ///
    /// # Errors
    /// The API refuses it.
    pub async fn rotate(&self, name: &str, certificate: &TestCertificate) -> anyhow::Result<String> {
        self.replace::<Secret>(&certificate.secret(name)).await
    }

    /// Returns the API for a kind in the namespace of these objects.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn create<K>(&self, manifest: &str) -> anyhow::Result<String>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
        K::DynamicType: Default,
    {
        let object: K = serde_yaml::from_str(manifest)?;
        version(&self.api::<K>().create(&PostParams::default(), &object).await?)
    }

    /// Replaces an object regardless of its version: there is no other writer.
    async fn replace<K>(&self, manifest: &str) -> anyhow::Result<String>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
        K::DynamicType: Default,
    {
        let object: K = serde_yaml::from_str(manifest)?;
        version(&self.api::<K>().replace(&object.name_any(), &PostParams::default(), &object).await?)
    }

    fn slice(&self, number: usize, backend: usize) -> String {
        let first = number * self.endpoints;
        let addresses: Vec<IpAddr> = (first..first + self.endpoints)
            .map(|index| {
                let index = u32::try_from(index).expect("there are fewer endpoints than addresses");
                IpAddr::V4(Ipv4Addr::from_bits(ENDPOINTS.0.to_bits() + index))
            })
            .collect();
        slice(&name(number), &addresses, self.ports[backend])
    }
}

/// Returns the host of Ingress n.
pub fn host(number: usize) -> String {
    format!("host-{number}.example")
}

fn name(number: usize) -> String {
    format!("object-{number}")
}

fn version(object: &impl ResourceExt) -> anyhow::Result<String> {
    object.resource_version().context("the API has answered without a resource version")
}
