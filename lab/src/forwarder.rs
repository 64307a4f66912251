//! What answers on the addresses of LoadBalancer Services that select Pods: each TCP port is relayed to the Service's
//! endpoints, one after the other, ready ones before draining ones.
//!
//! It is a load balancer of the plainest kind, at the level of bytes; the client's address is lost on the way, unless the
//! Service asks for a header of the PROXY protocol by the annotation [`PROXY_PROTOCOL`]. A Service without a selector gets
//! an address and nothing that listens on it, so that a gateway outside of a Pod can.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::allocator::load_balancer_address;
use crate::backends::{Candidates, Known, relay, take_in, tcp_ports};
use crate::client::{Again, connect};
use crate::cluster_ips::ClusterIps;
use crate::layout::Layout;
use crate::network;

/// The annotation of a LoadBalancer Service whose endpoints are to be told the client's address, by a header of version 1
/// of the PROXY protocol before the first byte of a connection.
pub const PROXY_PROTOCOL: &str = "lab.sluice.dev/proxy-protocol";

/// What a listening port has to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    candidates: Candidates,
    header: bool,
}

/// Where a listening port sends its connections; replaced whole.
#[derive(Debug, Default)]
struct Route {
    wanted: Mutex<Wanted>,
    next: AtomicUsize,
}

#[derive(Default)]
struct Forwarder {
    known: Arc<Mutex<Known>>,
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
    let mut own = ClusterIps::new(forwarder.known.clone(), layout.services_netns());
    loop {
        let taken_in = tokio::select! {
            Some(event) = services.next() => event.map(|event| {
                if let watcher::Event::Apply(service) | watcher::Event::InitApply(service) = &event {
                    own.open(service);
                }
                take_in(&mut forwarder.known().services, event);
            }),
            Some(event) = slices.next() => event.map(|event| take_in(&mut forwarder.known().slices, event)),
            else => return Ok(()),
        };
        match taken_in {
            Ok(()) => forwarder.settle(&layout).await,
            Err(error) => warn!(%error, "watching Services and EndpointSlices"),
        }
    }
}

impl Forwarder {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
        for (address, now) in wanted {
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
            *route.wanted.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
    }

    fn wanted(&self) -> HashMap<SocketAddr, Wanted> {
        let known = self.known();
        let mut wanted = HashMap::new();
        for (key, service) in &known.services {
            let Some(address) = answered(service) else { continue };
            let header = service.annotations().get(PROXY_PROTOCOL).is_some_and(|value| value == "true");
            let endpoints = known.endpoints(key);
            for (number, port) in tcp_ports(service) {
                let candidates = endpoints.get(port.name.as_deref().unwrap_or_default()).cloned();
                let candidates = candidates.unwrap_or_default();
                wanted.insert(SocketAddr::from((address, number)), Wanted { candidates, header });
            }
        }
        wanted
    }
}

/// The address of a load balancer that this answers on.
fn answered(service: &Service) -> Option<Ipv4Addr> {
    let selector = service.spec.as_ref()?.selector.as_ref();
    load_balancer_address(service).filter(|_| selector.is_some_and(|selector| !selector.is_empty()))
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
        let Ok((client, from)) = listener.accept().await else { continue };
        let wanted = route.wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let endpoints = wanted.candidates.in_turn(route.next.fetch_add(1, Ordering::Relaxed));
        let header = wanted.header.then(|| client.local_addr().ok().map(|to| header(from, to))).flatten();
        tokio::spawn(relay(client, endpoints, header));
    }
}

/// A header of the PROXY protocol, version 1, which is one line.
fn header(from: SocketAddr, to: SocketAddr) -> String {
    format!("PROXY TCP4 {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_is_answered_where_it_selects_pods() {
        let service = |value: serde_json::Value| answered(&serde_json::from_value(value).unwrap());
        let status = json!({"loadBalancer": {"ingress": [{"ip": "10.97.0.1"}]}});
        let balancer = Some(Ipv4Addr::new(10, 97, 0, 1));
        assert_eq!(service(json!({"spec": {"selector": {"a": "b"}}, "status": status})), balancer);
        assert_eq!(service(json!({"spec": {"clusterIP": "10.96.0.9"}, "status": status})), None);
        assert_eq!(service(json!({"spec": {"selector": {"a": "b"}}})), None);
    }

    #[test]
    fn a_header_of_the_proxy_protocol_names_both_ends() {
        let (from, to) = ("10.244.0.1:40000".parse().unwrap(), "10.97.0.1:80".parse().unwrap());
        assert_eq!(header(from, to), "PROXY TCP4 10.244.0.1 10.97.0.1 40000 80\r\n");
    }
}
