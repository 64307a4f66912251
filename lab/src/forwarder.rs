//! What answers on the addresses of LoadBalancer Services that select Pods: each TCP port is relayed to the Service's
//! endpoints, one after the other, ready ones before draining ones.
//!
//! It is a load balancer of the plainest kind, at the level of bytes; the client's address is lost on the way. A Service
//! without a selector gets an address and nothing that listens on it, so that a gateway outside of a Pod can.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::allocator::load_balancer_address;
use crate::client::{Again, connect};
use crate::layout::Layout;

/// A Service's endpoints for each port name, ready ones and draining ones.
type Ports = BTreeMap<String, Candidates>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Candidates {
    ready: Vec<SocketAddr>,
    draining: Vec<SocketAddr>,
}

/// Where a listening port sends its connections; replaced whole.
#[derive(Debug, Default)]
struct Route {
    candidates: Mutex<Candidates>,
    next: AtomicUsize,
}

#[derive(Default)]
struct Forwarder {
    services: HashMap<String, Service>,
    slices: HashMap<String, EndpointSlice>,
    listening: HashMap<SocketAddr, (Arc<Route>, JoinHandle<()>)>,
}

enum Change {
    Service(watcher::Event<Service>),
    Slice(watcher::Event<EndpointSlice>),
}

/// Relays for good.
///
/// # Errors
/// When the lab's kubeconfig is missing.
pub async fn run(layout: Layout) -> Result<()> {
    let client = connect(&layout.kubeconfig("admin")).await?;
    let config = watcher::Config::default;
    let services = watcher(Api::<Service>::all(client.clone()), config()).backoff(Again);
    let slices = watcher(Api::<EndpointSlice>::all(client), config()).backoff(Again);
    let mut changes =
        pin!(stream::select(services.map(|e| e.map(Change::Service)), slices.map(|e| e.map(Change::Slice))));
    let mut forwarder = Forwarder::default();
    while let Some(change) = changes.next().await {
        match change {
            Ok(Change::Service(event)) => take_in(&mut forwarder.services, event),
            Ok(Change::Slice(event)) => take_in(&mut forwarder.slices, event),
            Err(error) => {
                warn!(%error, "watching Services and EndpointSlices");
                continue;
            }
        }
        forwarder.settle().await;
    }
    Ok(())
}

/// Keeps what was seen. What was deleted while nobody watched stays listed; its endpoints answer no more.
fn take_in<K: ResourceExt>(known: &mut HashMap<String, K>, event: watcher::Event<K>) {
    let key = |object: &K| format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any());
    match event {
        watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
            known.insert(key(&object), object);
        }
        watcher::Event::Delete(object) => drop(known.remove(&key(&object))),
        watcher::Event::Init | watcher::Event::InitDone => {}
    }
}

impl Forwarder {
    /// Listens where it should and nowhere else, and points every port at its endpoints.
    async fn settle(&mut self) {
        let wanted = self.wanted();
        self.listening.retain(|address, (_, task)| {
            let keep = wanted.contains_key(address);
            if !keep {
                task.abort();
            }
            keep
        });
        for (address, candidates) in wanted {
            let route = match self.listening.get(&address) {
                Some((route, _)) => route.clone(),
                None => match listen(address).await {
                    Ok((route, task)) => {
                        info!(%address, "is answered");
                        self.listening.insert(address, (route.clone(), task));
                        route
                    }
                    // The address comes with the next event of the Service at the latest.
                    Err(error) => {
                        warn!(%address, %error, "cannot listen");
                        continue;
                    }
                },
            };
            *route.candidates.lock().unwrap_or_else(PoisonError::into_inner) = candidates;
        }
    }

    fn wanted(&self) -> HashMap<SocketAddr, Candidates> {
        let mut wanted = HashMap::new();
        for (key, service) in &self.services {
            let Some(spec) =
                service.spec.as_ref().filter(|s| s.selector.as_ref().is_some_and(|s| !s.is_empty()))
            else {
                continue;
            };
            let Some(address) = load_balancer_address(service) else { continue };
            let endpoints = self.endpoints(key);
            for port in
                spec.ports.iter().flatten().filter(|p| p.protocol.as_deref().unwrap_or("TCP") == "TCP")
            {
                let Ok(number) = u16::try_from(port.port) else { continue };
                let candidates = endpoints.get(port.name.as_deref().unwrap_or_default()).cloned();
                wanted.insert(SocketAddr::from((address, number)), candidates.unwrap_or_default());
            }
        }
        wanted
    }

    /// The endpoints of the Service `namespace/name` by port name.
    fn endpoints(&self, key: &str) -> Ports {
        let mut ports = Ports::new();
        for slice in self.slices.values().filter(|slice| service_of(slice).as_deref() == Some(key)) {
            for port in slice.ports.iter().flatten() {
                let Some(number) = port.port.and_then(|number| u16::try_from(number).ok()) else { continue };
                let candidates = ports.entry(port.name.clone().unwrap_or_default()).or_default();
                for endpoint in slice.endpoints.iter().flatten() {
                    candidates.add(endpoint, number);
                }
            }
        }
        ports
    }
}

impl Candidates {
    fn add(&mut self, endpoint: &Endpoint, port: u16) {
        let address = endpoint.addresses.first().and_then(|address| address.parse::<Ipv4Addr>().ok());
        let (Some(address), Some(conditions)) = (address, endpoint.conditions.as_ref()) else { return };
        let address = SocketAddr::from((address, port));
        if conditions.ready == Some(true) {
            self.ready.push(address);
        } else if conditions.serving == Some(true) {
            self.draining.push(address);
        }
    }
}

fn service_of(slice: &EndpointSlice) -> Option<String> {
    let name = slice.labels().get("kubernetes.io/service-name")?;
    Some(format!("{}/{name}", slice.namespace()?))
}

async fn listen(address: SocketAddr) -> std::io::Result<(Arc<Route>, JoinHandle<()>)> {
    let listener = TcpListener::bind(address).await?;
    let route = Arc::new(Route::default());
    let task = tokio::spawn(accept(listener, route.clone()));
    Ok((route, task))
}

async fn accept(listener: TcpListener, route: Arc<Route>) {
    loop {
        let Ok((mut client, _)) = listener.accept().await else { continue };
        let route = route.clone();
        tokio::spawn(async move {
            for endpoint in route.in_turn() {
                if let Ok(mut server) = TcpStream::connect(endpoint).await {
                    for stream in [&client, &server] {
                        let _ = stream.set_nodelay(true);
                    }
                    // Either side may break off at any time; both ends are closed then.
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                    return;
                }
            }
        });
    }
}

impl Route {
    /// All endpoints to try for the next connection, best first.
    fn in_turn(&self) -> Vec<SocketAddr> {
        let candidates = self.candidates.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut all = if candidates.ready.is_empty() { candidates.draining } else { candidates.ready };
        if !all.is_empty() {
            let first = self.next.fetch_add(1, Ordering::Relaxed) % all.len();
            all.rotate_left(first);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn draining_endpoints_are_used_when_no_other_is_left() {
        let endpoint = |ip: &str, ready: bool, serving: bool| -> Endpoint {
            serde_json::from_value(
                json!({"addresses": [ip], "conditions": {"ready": ready, "serving": serving}}),
            )
            .unwrap()
        };
        let route = Route::default();
        let set = |endpoints: &[Endpoint]| {
            let mut candidates = Candidates::default();
            endpoints.iter().for_each(|endpoint| candidates.add(endpoint, 80));
            *route.candidates.lock().unwrap() = candidates;
        };
        set(&[
            endpoint("10.0.0.1", true, true),
            endpoint("10.0.0.2", true, true),
            endpoint("10.0.0.3", false, true),
        ]);
        let (first, second) = (route.in_turn(), route.in_turn());
        assert_eq!(first.len(), 2);
        assert_ne!(first[0], second[0]);
        set(&[endpoint("10.0.0.3", false, true), endpoint("10.0.0.4", false, false)]);
        assert_eq!(route.in_turn(), ["10.0.0.3:80".parse().unwrap()]);
        set(&[]);
        assert!(route.in_turn().is_empty());
    }
}
