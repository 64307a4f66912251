//! Determines the addresses while this replica leads, and again whenever the Service that provides
//! them changes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Service};
use kube::{Api, Client};
use sluice_config::{Code, NamespacedName, ObjectRef, Problem};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::addresses;
use super::nodes::NodeAddresses;
use super::replicas::Replicas;
use crate::backoff::Backoff;
use crate::cluster::api::{self, Refused, changed};
use crate::cluster::{DutyOptions, Findings, refusal};
use crate::problem::{Duty, error};
use crate::store::Address;

/// Minimum interval between periodic checks, as in ingress-nginx.
const SHORTEST: Duration = Duration::from_secs(5);
/// Minimum interval between checks because of changes.
const CHANGES: Duration = Duration::from_secs(1);
/// Wait after failed checks.
const FAILED: Backoff = Backoff::new(SHORTEST, Duration::from_secs(60));

/// The source of the addresses, and the channel that receives them.
pub(super) struct AddressSource {
    pub(super) client: Client,
    pub(super) options: DutyOptions,
    pub(super) replicas: Arc<Replicas>,
    pub(super) findings: Findings,
    /// The published addresses at the start of this replica's leadership. `None` while it does not
    /// lead.
    pub(super) published: watch::Receiver<Option<Arc<[Address]>>>,
    /// The addresses. Empty while none are known.
    pub(super) addresses: watch::Sender<Arc<[Address]>>,
}

/// The current addresses.
struct Found {
    addresses: Vec<Address>,
    /// Resource version of the object that provides them.
    version: Option<String>,
    /// Whether more addresses are expected soon.
    awaited: bool,
}

/// Why there are no addresses.
enum NoAddresses {
    Refused { object: String, refused: Refused },
    Problem(Problem),
}

impl AddressSource {
    /// Runs until the receiver of the addresses is dropped.
    pub(super) async fn run(mut self) {
        loop {
            let published = match self.published.wait_for(Option::is_some).await {
                Ok(published) => published.clone().unwrap_or_default(),
                Err(_) => return,
            };
            let mut nodes = NodeAddresses::new(&published);
            let mut failures = 0;
            loop {
                let begun = Instant::now();
                let (next, version) = self.look(&mut nodes, &mut failures).await;
                let (changes, stopped) = (self.changes(version, begun + next), self.published.clone());
                tokio::select! {
                    () = changes => sleep_until(begun + CHANGES).await,
                    () = over(stopped) => break,
                    () = self.addresses.closed() => return,
                }
            }
        }
    }

    /// Waits for a change of the Service, or for the next periodic check if it cannot be watched.
    async fn changes(&self, version: Option<String>, next: Instant) {
        if let (Some(version), Some(service)) = (version, &self.options.publish_service) {
            let api = Api::<Service>::namespaced(self.client.clone(), &service.namespace);
            if changed(&api, &format!("metadata.name={}", service.name), &version).await {
                return;
            }
        }
        sleep_until(next).await;
    }

    /// Checks once. Returns the time until the next check, and the version whose change to watch
    /// for.
    async fn look(&self, nodes: &mut NodeAddresses, failures: &mut u32) -> (Duration, Option<String>) {
        let wait = self.options.status_update_interval.max(SHORTEST);
        let found = self.find(nodes).await;
        *failures = if found.is_ok() { 0 } else { failures.saturating_add(1) };
        match found {
            Ok(Found { addresses, version, awaited }) => {
                let none = self.is_none(&addresses);
                // Without an address, checks are frequent: a load balancer is probably being
                // created.
                let wait = if none.is_some() || awaited { SHORTEST } else { wait };
                if none.is_none() {
                    self.addresses.send_replace(addresses.into());
                }
                self.findings.set(Duty::Addresses, none.into_iter().collect());
                (wait, version)
            }
            Err(NoAddresses::Problem(problem)) => {
                self.findings.set(Duty::Addresses, vec![problem]);
                (FAILED.wait(*failures), None)
            }
            Err(NoAddresses::Refused { object, refused }) => {
                tracing::debug!(object, error = %refused, "cannot look at the addresses for the status");
                let effect = "the status of Ingresses stays as it is";
                self.findings.refused(Duty::Addresses, &object, effect, &refused);
                (FAILED.wait(*failures).max(refused.retry_after().unwrap_or_default()), None)
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
                "the status of Ingresses gets no address: no node of a ready gateway Pod has one",
                "name a Service with --publish-service or addresses with --publish-status-address",
            ),
        };
        let what = format!("{why}; the status of Ingresses stays as it is");
        Some(error(Code::AddressUnknown, &object, "", what, remedy))
    }

    async fn find(&self, nodes: &mut NodeAddresses) -> Result<Found, NoAddresses> {
        let fixed = addresses::fixed(&self.options.publish_status_address);
        if !fixed.is_empty() {
            return Ok(Found { addresses: fixed, version: None, awaited: false });
        }
        match &self.options.publish_service {
            Some(name) => self.of_service(name).await,
            None => {
                let (addresses, awaited) = nodes.take(self.of_nodes().await?, Instant::now());
                Ok(Found { addresses, version: None, awaited })
            }
        }
    }

    async fn of_service(&self, name: &NamespacedName) -> Result<Found, NoAddresses> {
        let api = Api::<Service>::namespaced(self.client.clone(), &name.namespace);
        match api::execute(api.get(&name.name)).await {
            Ok(service) => Ok(Found {
                addresses: addresses::of_service(&service),
                version: service.metadata.resource_version,
                awaited: false,
            }),
            Err(Refused::NotFound) => Err(NoAddresses::Problem(error(
                Code::AddressUnknown,
                &ObjectRef { kind: "Service".into(), name: name.clone() },
                "",
                "--publish-service names it, and it does not exist; the status of Ingresses stays as it is",
                "make the Service, or correct the flag",
            ))),
            Err(refused) => Err(NoAddresses::Refused { object: format!("services {name}"), refused }),
        }
    }

    async fn of_nodes(&self) -> Result<Vec<Address>, NoAddresses> {
        let refusal_of = |object: String| move |refused| NoAddresses::Refused { object, refused };
        let listed = self.replicas.list().await.map_err(refusal_of("pods".to_owned()))?;
        let Some(pods) = listed else {
            return Err(NoAddresses::Problem(error(
                Code::AddressUnknown,
                &ObjectRef::new("Flag", "", "--publish-status-address"),
                "",
                "the Pod that POD_NAME and POD_NAMESPACE name does not exist, so the replicas are unknown; \
                 the status of Ingresses stays as it is",
                "set both from the fields of the Pod, or name a Service with --publish-service",
            )));
        };
        let names: BTreeSet<&str> = pods.iter().filter_map(addresses::node_of_ready).collect();
        tracing::debug!(replicas = pods.len(), nodes = ?names, "looked at the nodes of ready replicas");
        let api = Api::<Node>::all(self.client.clone());
        let mut nodes = Vec::new();
        for name in names {
            let node = api::found(api.get(name)).await.map_err(refusal_of(format!("nodes {name}")))?;
            nodes.extend(node);
        }
        Ok(addresses::of_nodes(nodes.iter(), self.options.report_node_internal_ip_address))
    }
}

/// Waits until this replica no longer leads.
async fn over(mut published: watch::Receiver<Option<Arc<[Address]>>>) {
    let _ = published.wait_for(Option::is_none).await;
}

/// Returns a refusal as a problem that can stand beside others.
pub(super) fn problem_of(refused: &Refused) -> Option<Problem> {
    refusal("ingresses.networking.k8s.io status", "the status of Ingresses stays as it is", refused)
}
