//! What answers on the addresses of LoadBalancer Services that select Pods: each TCP port is relayed to the Service's
//! endpoints, one after the other, ready ones before draining ones.
//!
//! It is a load balancer of the plainest kind, at the level of bytes; the client's address is lost on the way. A Service
//! without a selector gets an address and nothing that listens on it, so that a gateway outside of a Pod can.
//!
//! There is no kube-proxy: a Service's own address is answered only where the annotation [`ANSWER`] is `true`, since a
//! cluster under measurement has thousands of Services and each would cost a socket.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use futures::StreamExt;
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
use crate::network;

/// The annotation of a Service whose own address (`clusterIP`) is to be answered.
pub const ANSWER: &str = "lab.sluice.dev/answer-cluster-ip";

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

/// Relays for good.
///
/// # Errors
/// When the lab's kubeconfig is missing.
pub async fn run(layout: Layout) -> Result<()> {
    let client = connect(&layout.kubeconfig("admin")).await?;
    let config = watcher::Config::default;
    let mut services = pin!(watcher(Api::<Service>::all(client.clone()), config()).backoff(Again));
    let mut slices = pin!(watcher(Api::<EndpointSlice>::all(client), config()).backoff(Again));
    let mut forwarder = Forwarder::default();
    loop {
        let taken_in = tokio::select! {
            Some(event) = services.next() => event.map(|event| take_in(&mut forwarder.services, event)),
            Some(event) = slices.next() => event.map(|event| take_in(&mut forwarder.slices, event)),
            else => return Ok(()),
        };
        match taken_in {
            Ok(()) => forwarder.settle(&layout).await,
            Err(error) => warn!(%error, "watching Services and EndpointSlices"),
        }
    }
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
    async fn settle(&mut self, layout: &Layout) {
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
                None => match listen(layout, address).await {
                    Ok((route, task)) => {
                        info!(%address, "is answered");
                        self.listening.insert(address, (route.clone(), task));
                        route
                    }
                    // The address comes with the next event of the Service at the latest.
                    Err(error) => {
                        warn!(%address, "cannot listen: {error:#}");
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
            let Some(spec) = service.spec.as_ref() else { continue };
            let addresses = answered(service);
            if addresses.is_empty() {
                continue;
            }
            let endpoints = self.endpoints(key);
            for port in
                spec.ports.iter().flatten().filter(|p| p.protocol.as_deref().unwrap_or("TCP") == "TCP")
            {
                let Ok(number) = u16::try_from(port.port) else { continue };
                let candidates = endpoints.get(port.name.as_deref().unwrap_or_default()).cloned();
                let candidates = candidates.unwrap_or_default();
                wanted
                    .extend(addresses.iter().map(|ip| (SocketAddr::from((*ip, number)), candidates.clone())));
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

/// The addresses of a Service that this answers on.
fn answered(service: &Service) -> Vec<Ipv4Addr> {
    let Some(spec) = service.spec.as_ref() else { return Vec::new() };
    let selects = spec.selector.as_ref().is_some_and(|selector| !selector.is_empty());
    let balancer = load_balancer_address(service).filter(|_| selects);
    let asked = service.annotations().get(ANSWER).is_some_and(|value| value == "true");
    let own = spec.cluster_ip.as_ref().filter(|_| asked).and_then(|ip| ip.parse().ok());
    balancer.into_iter().chain(own).collect()
}

fn service_of(slice: &EndpointSlice) -> Option<String> {
    let name = slice.labels().get("kubernetes.io/service-name")?;
    Some(format!("{}/{name}", slice.namespace()?))
}

async fn listen(layout: &Layout, address: SocketAddr) -> Result<(Arc<Route>, JoinHandle<()>)> {
    network::add_loopback(layout, &address.ip().to_string())?;
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
    /// All endpoints for the next connection, best first.
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
    fn a_service_is_answered_where_it_selects_pods_or_asks_for_it() {
        let service = |value: serde_json::Value| answered(&serde_json::from_value(value).unwrap());
        let status = json!({"loadBalancer": {"ingress": [{"ip": "10.97.0.1"}]}});
        let balancer = [Ipv4Addr::new(10, 97, 0, 1)];
        assert_eq!(service(json!({"spec": {"selector": {"a": "b"}}, "status": status})), balancer);
        assert!(service(json!({"spec": {"clusterIP": "10.96.0.9"}, "status": status})).is_empty());
        let asks = json!({"annotations": {ANSWER: "true"}});
        let own = [Ipv4Addr::new(10, 96, 0, 9)];
        assert_eq!(service(json!({"metadata": asks, "spec": {"clusterIP": "10.96.0.9"}})), own);
        assert!(service(json!({"metadata": asks, "spec": {"clusterIP": "None"}})).is_empty());
    }

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
