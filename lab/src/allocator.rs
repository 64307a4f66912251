//! Addresses for Services of type LoadBalancer, as a cloud provides them. They are written into the
//! status of the Service and added to the lab's loopback, where the lab and all Pods reach them.
//! The status of Gateways is left to their controller.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::pin::pin;

use anyhow::Result;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::Mutex;
use tracing::{info, warn};

use crate::client::{Again, connect};
use crate::layout::Layout;
use crate::network;

/// Allocated addresses by owner.
#[derive(Debug, Default)]
struct Allocations(HashMap<String, Ipv4Addr>);

impl Allocations {
    /// Returns the owner's address: its present one, else an unused one from its status, else the
    /// lowest free one.
    fn assign(&mut self, owner: &str, claimed: Option<Ipv4Addr>) -> Option<Ipv4Addr> {
        if let Some(address) = self.0.get(owner) {
            return Some(*address);
        }
        let free = |address: &Ipv4Addr| !self.0.values().any(|taken| taken == address);
        let pool = (1..255).map(|last| Ipv4Addr::new(10, 97, 0, last));
        let claimed = claimed.filter(|claimed| claimed.octets()[..3] == [10, 97, 0]);
        let address = claimed.into_iter().chain(pool).find(free)?;
        self.0.insert(owner.to_owned(), address);
        Some(address)
    }

    fn give_back(&mut self, owner: &str) -> Option<Ipv4Addr> {
        self.0.remove(owner)
    }
}

/// Allocates addresses until it is dropped.
///
/// # Errors
/// Returns an error if the lab's kubeconfig is missing.
pub async fn run(layout: Layout) -> Result<()> {
    let client = connect(&layout.kubeconfig("admin")).await?;
    let allocations = Mutex::new(Allocations::default());
    services(&layout, &client, &allocations).await;
    Ok(())
}

async fn services(layout: &Layout, client: &Client, allocations: &Mutex<Allocations>) {
    let all: Api<Service> = Api::all(client.clone());
    let mut events = pin!(watcher(all, watcher::Config::default()).backoff(Again));
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Apply(service) | watcher::Event::InitApply(service)) => {
                let owner =
                    format!("Service {}/{}", service.namespace().unwrap_or_default(), service.name_any());
                let spec = service.spec.as_ref();
                let wanted = spec.is_some_and(|spec| {
                    spec.type_.as_deref() == Some("LoadBalancer") && spec.load_balancer_class.is_none()
                });
                if !wanted {
                    release(layout, allocations, &owner).await;
                    continue;
                }
                let current = load_balancer_address(&service);
                let Some(address) = assign(layout, allocations, &owner, current).await else { continue };
                if current != Some(address) {
                    let ingress = json!([{"ip": address.to_string(), "ipMode": "VIP"}]);
                    let status = json!({"status": {"loadBalancer": {"ingress": ingress}}});
                    let api: Api<Service> =
                        Api::namespaced(client.clone(), &service.namespace().unwrap_or_default());
                    let outcome = api
                        .patch_status(&service.name_any(), &PatchParams::default(), &Patch::Merge(status))
                        .await;
                    report(&owner, address, outcome.map(drop));
                }
            }
            Ok(watcher::Event::Delete(service)) => {
                let owner =
                    format!("Service {}/{}", service.namespace().unwrap_or_default(), service.name_any());
                release(layout, allocations, &owner).await;
            }
            Ok(_) => {}
            Err(error) => warn!(%error, "watching Services"),
        }
    }
}

async fn assign(
    layout: &Layout,
    allocations: &Mutex<Allocations>,
    owner: &str,
    claimed: Option<Ipv4Addr>,
) -> Option<Ipv4Addr> {
    let address = allocations.lock().await.assign(owner, claimed);
    match address {
        None => warn!(owner, "no load balancer address is left"),
        Some(address) => {
            if let Err(error) = network::add_loopback(layout, &address.to_string()) {
                warn!(owner, "{error:#}");
            }
        }
    }
    address
}

async fn release(layout: &Layout, allocations: &Mutex<Allocations>, owner: &str) {
    if let Some(address) = allocations.lock().await.give_back(owner)
        && let Err(error) = network::remove_loopback(layout, &address.to_string())
    {
        warn!(owner, "{error:#}");
    }
}

fn report(owner: &str, address: Ipv4Addr, outcome: kube::Result<()>) {
    match outcome {
        Ok(()) => info!(owner, %address, "has an address"),
        Err(error) => warn!(owner, %error, "writing the address"),
    }
}

/// Returns the address in a Service's status.
pub fn load_balancer_address(service: &Service) -> Option<Ipv4Addr> {
    let ingress = service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref()?;
    ingress.first()?.ip.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_one_owner_until_it_is_given_back() {
        let mut allocations = Allocations::default();
        let last = |last| Some(Ipv4Addr::new(10, 97, 0, last));
        assert_eq!(allocations.assign("a", None), last(1));
        assert_eq!(allocations.assign("b", last(9)), last(9));
        assert_eq!(allocations.assign("c", last(9)), last(2));
        assert_eq!(allocations.assign("d", Some(Ipv4Addr::new(192, 0, 2, 1))), last(3));
        assert_eq!(allocations.assign("a", last(7)), last(1));
        assert_eq!(allocations.give_back("a"), last(1));
        assert_eq!(allocations.assign("e", None), last(1));
        assert_eq!(allocations.give_back("nobody"), None);
    }

    #[test]
    fn the_pool_has_an_end() {
        let mut allocations = Allocations::default();
        for owner in 1..255 {
            assert!(allocations.assign(&owner.to_string(), None).is_some());
        }
        assert_eq!(allocations.assign("one too many", None), None);
    }
}
