//! Load balancers of LoadBalancer Services that select Pods: each TCP port is relayed to the
//! Service's endpoints in turn, ready ones before draining ones.
//!
//! It relays bytes. Endpoints do not see the client's address, unless the Service sets
//! `externalTrafficPolicy: Local`, or requests a PROXY protocol header by the annotation
//! [`PROXY_PROTOCOL`]. A Service without a selector gets an address without a listener, so that a
//! gateway outside of a Pod can listen on it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::backends::{Candidates, Known, TCP, balancer, ports, relay, take_in};
use crate::client::{Again, connect};
use crate::cluster_ips::ClusterIps;
use crate::datagrams::Datagrams;
use crate::layout::Layout;
use crate::network;
use crate::transparent;

/// Annotation of a LoadBalancer Service: endpoints get the client's address in a PROXY protocol
/// header, version 1, before the first byte of a connection.
pub const PROXY_PROTOCOL: &str = "lab.sluice.dev/proxy-protocol";

/// The configuration of a listening port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    candidates: Candidates,
    header: bool,
    keeps_address: bool,
}

/// The current configuration of a listening port, replaced as a whole.
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

/// Relays until it is dropped.
///
/// # Errors
/// Returns an error if the lab's kubeconfig is missing.
pub async fn run(layout: Layout) -> Result<()> {
    let client = connect(&layout.kubeconfig("admin")).await?;
    let config = watcher::Config::default;
    let mut services = pin!(watcher(Api::<Service>::all(client.clone()), config()).backoff(Again));
    let mut slices = pin!(watcher(Api::<EndpointSlice>::all(client), config()).backoff(Again));
    let mut forwarder = Forwarder::default();
    let mut own = ClusterIps::new(forwarder.known.clone(), layout.services_netns());
    let mut datagrams = Datagrams::new(forwarder.known.clone(), layout.clone());
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
            Ok(()) => {
                forwarder.settle(&layout).await;
                datagrams.settle();
            }
            Err(error) => warn!(%error, "watching Services and EndpointSlices"),
        }
    }
}

impl Forwarder {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens on exactly the addresses required, and updates the endpoints of each port.
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
                    // Retried at the next event: the address is added at the Service's next event
                    // at the latest.
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
            let Some(address) = balancer(service) else { continue };
            let header = service.annotations().get(PROXY_PROTOCOL).is_some_and(|value| value == "true");
            let policy = service.spec.as_ref().and_then(|spec| spec.external_traffic_policy.as_deref());
            let keeps_address = policy == Some("Local");
            let endpoints = known.endpoints(key);
            for (number, port) in ports(service, TCP) {
                let candidates = endpoints.get(port.name.as_deref().unwrap_or_default()).cloned();
                let candidates = candidates.unwrap_or_default();
                let wants = Wanted { candidates, header, keeps_address };
                wanted.insert(SocketAddr::from((address, number)), wants);
            }
        }
        wanted
    }
}

async fn listen(layout: &Layout, address: SocketAddr) -> Result<(Arc<Route>, JoinHandle<()>)> {
    network::add_loopback(layout, &address.ip().to_string())?;
    let listener = TcpListener::bind(address).await?;
    let route = Arc::new(Route::default());
    let task = tokio::spawn(accept(listener, route.clone(), layout.clone()));
    Ok((route, task))
}

async fn accept(listener: TcpListener, route: Arc<Route>, layout: Layout) {
    loop {
        let Ok((client, from)) = listener.accept().await else { continue };
        let wanted = route.wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let endpoints = wanted.candidates.in_turn(route.next.fetch_add(1, Ordering::Relaxed));
        let header = wanted.header.then(|| client.local_addr().ok().map(|to| header(from, to))).flatten();
        if wanted.keeps_address {
            let layout = layout.clone();
            tokio::spawn(relay(client, endpoints, header, move |endpoint| {
                let layout = layout.clone();
                async move { transparent::connect(&layout, from, endpoint).await }
            }));
        } else {
            tokio::spawn(relay(client, endpoints, header, TcpStream::connect));
        }
    }
}

/// Returns a PROXY protocol header, version 1: a single line.
fn header(from: SocketAddr, to: SocketAddr) -> String {
    format!("PROXY TCP4 {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_the_proxy_protocol_names_both_ends() {
        let (from, to) = ("10.244.0.1:40000".parse().unwrap(), "10.97.0.1:80".parse().unwrap());
        assert_eq!(header(from, to), "PROXY TCP4 10.244.0.1 10.97.0.1 40000 80\r\n");
    }
}
