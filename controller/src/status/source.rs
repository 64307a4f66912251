//! Looks at the addresses while this replica leads, and again when a Service that they come from changes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::api::ListParams;
use kube::{Api, Client};
use sluice_config::{Code, NamespacedName, ObjectRef, Problem};
use tokio::sync::watch;
use tokio::time::sleep;

use super::addresses;
use crate::duties::api::{self, Refused, hint};
use crate::duties::{Duty, DutyOptions, Findings, OwnPod, refusal};
use crate::problem::error;
use crate::store::Address;

/// The shortest time between two looks, as in ingress-nginx.
const SHORTEST: Duration = Duration::from_secs(5);

/// Where the addresses come from, and where they go to.
pub(super) struct AddressSource {
    pub(super) client: Client,
    pub(super) options: DutyOptions,
    pub(super) pod: OwnPod,
    pub(super) findings: Findings,
    pub(super) leading: watch::Receiver<bool>,
    /// Empty as long as none are known.
    pub(super) addresses: watch::Sender<Arc<[Address]>>,
}

/// Addresses as they are now, with the version of the object that they come from.
struct Found {
    addresses: Vec<Address>,
    version: Option<String>,
}

/// Why there are none.
enum Lack {
    Refused { object: String, refused: Refused },
    Problem(Problem),
}

impl AddressSource {
    /// Runs until nobody wants to know any more.
    pub(super) async fn run(mut self) {
        loop {
            if self.leading.wait_for(|leads| *leads).await.is_err() {
                return;
            }
            let (wait, version) = self.look().await;
            let service = self.options.publish_service.as_ref();
            let namespace = service.map_or("default", |service| &*service.namespace);
            let api = Api::<Service>::namespaced(self.client.clone(), namespace);
            let fields = service.map(|service| format!("metadata.name={}", service.name)).unwrap_or_default();
            let since = version.as_deref().unwrap_or_default();
            tokio::select! {
                () = sleep(wait) => {}
                () = hint(&api, &fields, since), if version.is_some() => {}
                changed = self.leading.changed() => if changed.is_err() { return },
                () = self.addresses.closed() => return,
            }
        }
    }

    /// Looks once. Gives the time until the next look, and the version to wait for a change of.
    async fn look(&self) -> (Duration, Option<String>) {
        let wait = self.options.status_update_interval.max(SHORTEST);
        match self.find().await {
            Ok(Found { addresses, version }) => {
                let none = self.is_none(&addresses);
                // Without any, the next ones are not far: a load balancer is being made.
                let wait = if none.is_some() { SHORTEST } else { wait };
                if none.is_none() {
                    self.addresses.send_if_modified(|old| {
                        let new = **old != *addresses;
                        *old = addresses.into();
                        new
                    });
                }
                self.findings.set(Duty::Addresses, none.into_iter().collect()).await;
                (wait, version)
            }
            Err(Lack::Problem(problem)) => {
                self.findings.set(Duty::Addresses, vec![problem]).await;
                (SHORTEST, None)
            }
            Err(Lack::Refused { object, refused }) => {
                tracing::debug!(object, error = %refused, "cannot look at the addresses for the status");
                let effect = "the status of Ingresses stays as it is";
                self.findings.refused(Duty::Addresses, &object, effect, &refused).await;
                (SHORTEST, None)
            }
        }
    }

    fn is_none(&self, addresses: &[Address]) -> Option<Problem> {
        if !addresses.is_empty() {
            return None;
        }
        let (object, why, remedy) = match &self.options.publish_service {
            Some(name) => (
                ObjectRef { kind: "Service".into(), name: name.clone() },
                "--publish-service names it, and it has no address yet",
                "wait for its load balancer, or give it externalIPs, or name addresses with --publish-status-address",
            ),
            None => (
                ObjectRef::new("Flag", "", "--publish-status-address"),
                "no address goes into the status of Ingresses: no node of a ready Pod of ours has one",
                "name a Service with --publish-service or addresses with --publish-status-address",
            ),
        };
        let what = format!("{why}; the status of Ingresses stays as it is");
        Some(error(Code::AddressUnknown, &object, "", what, remedy))
    }

    async fn find(&self) -> Result<Found, Lack> {
        let fixed = addresses::fixed(&self.options.publish_status_address);
        if !fixed.is_empty() {
            return Ok(Found { addresses: fixed, version: None });
        }
        match &self.options.publish_service {
            Some(name) => self.of_service(name).await,
            None => Ok(Found { addresses: self.of_nodes().await?, version: None }),
        }
    }

    async fn of_service(&self, name: &NamespacedName) -> Result<Found, Lack> {
        let api = Api::<Service>::namespaced(self.client.clone(), &name.namespace);
        match api::ask(api.get(&name.name)).await {
            Ok(service) => Ok(Found {
                addresses: addresses::of_service(&service),
                version: service.metadata.resource_version,
            }),
            Err(Refused::NotFound) => Err(Lack::Problem(error(
                Code::AddressUnknown,
                &ObjectRef { kind: "Service".into(), name: name.clone() },
                "",
                "--publish-service names it, and it does not exist; the status of Ingresses stays as it is",
                "make the Service, or correct the flag",
            ))),
            Err(refused) => Err(Lack::Refused { object: format!("services {name}"), refused }),
        }
    }

    async fn of_nodes(&self) -> Result<Vec<Address>, Lack> {
        let lack = |object: String| move |refused| Lack::Refused { object, refused };
        let pods = replicas(&self.client, &self.pod)
            .await
            .map_err(lack(format!("pods in namespace {}", self.pod.namespace)))?;
        let names: BTreeSet<&str> = pods.iter().filter_map(addresses::node_of_ready).collect();
        tracing::debug!(replicas = pods.len(), nodes = ?names, "looked at the nodes of ready replicas");
        let api = Api::<Node>::all(self.client.clone());
        let mut nodes = Vec::new();
        for name in names {
            let node = api::found(api.get(name)).await.map_err(lack(format!("nodes {name}")))?;
            nodes.extend(node);
        }
        Ok(addresses::of_nodes(nodes.iter(), self.options.report_node_internal_ip_address))
    }
}

/// The Pods with the labels of ours, ours among them; none where ours is not there.
pub(super) async fn replicas(client: &Client, pod: &OwnPod) -> Result<Vec<Pod>, Refused> {
    let api = Api::<Pod>::namespaced(client.clone(), &pod.namespace);
    let Some(own) = api::found(api.get(&pod.name)).await? else { return Ok(Vec::new()) };
    let labels = own.metadata.labels.clone().unwrap_or_default();
    match addresses::selector(&labels) {
        Some(selector) => Ok(api::ask(api.list(&ListParams::default().labels(&selector))).await?.items),
        None => Ok(vec![own]),
    }
}

/// A refusal as a problem that stands beside others.
pub(super) fn problem_of(refused: &Refused) -> Option<Problem> {
    refusal("ingresses.networking.k8s.io status", "the status of Ingresses stays as it is", refused)
}
