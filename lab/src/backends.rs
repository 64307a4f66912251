//! Services and endpoints as received from the watch, and the relay of a connection to an endpoint.
//! Shared by load balancer and Service addresses.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::ResourceExt;
use kube::runtime::watcher;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::allocator::load_balancer_address;

/// All Services and EndpointSlices, by namespace and name.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) services: HashMap<String, Service>,
    pub(crate) slices: HashMap<String, EndpointSlice>,
}

/// A Service's endpoints by port name.
pub(crate) type Ports = BTreeMap<String, Candidates>;

/// Endpoints of a port, by preference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    ready: Vec<SocketAddr>,
    draining: Vec<SocketAddr>,
}

/// Records an event. Objects deleted while the watch was interrupted stay listed; their endpoints
/// do not respond.
pub(crate) fn take_in<K: ResourceExt>(known: &mut HashMap<String, K>, event: watcher::Event<K>) {
    let key = |object: &K| format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any());
    match event {
        watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
            known.insert(key(&object), object);
        }
        watcher::Event::Delete(object) => drop(known.remove(&key(&object))),
        watcher::Event::Init | watcher::Event::InitDone => {}
    }
}

/// The default protocol of a port.
pub(crate) const TCP: &str = "TCP";
/// The protocol of datagrams.
pub(crate) const UDP: &str = "UDP";

/// Returns the ports of a Service with this protocol.
pub(crate) fn ports<'a>(
    service: &'a Service,
    protocol: &'static str,
) -> impl Iterator<Item = (u16, &'a ServicePort)> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let wanted = ports.filter(move |port| port.protocol.as_deref().unwrap_or(TCP) == protocol);
    wanted.filter_map(|port| Some((u16::try_from(port.port).ok()?, port)))
}

/// Returns the address of a Service's load balancer if the Service selects Pods. Otherwise the
/// address is left to a gateway outside of Pods.
pub(crate) fn balancer(service: &Service) -> Option<Ipv4Addr> {
    let selector = service.spec.as_ref()?.selector.as_ref();
    load_balancer_address(service).filter(|_| selector.is_some_and(|selector| !selector.is_empty()))
}

/// Returns the cluster IP of a Service.
fn cluster_ip(service: &Service) -> Option<Ipv4Addr> {
    service.spec.as_ref()?.cluster_ip.as_ref()?.parse().ok()
}

impl Known {
    /// Returns the endpoints of the Service `namespace/name` by port name.
    pub(crate) fn endpoints(&self, key: &str) -> Ports {
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

    /// Returns the endpoints behind a port of a Service's cluster IP or load balancer address.
    pub(crate) fn behind(&self, address: SocketAddr, protocol: &'static str) -> Option<Candidates> {
        let owns = |service: &Service| {
            [cluster_ip(service), balancer(service)].into_iter().flatten().any(|own| address.ip() == own)
        };
        let (key, service) = self.services.iter().find(|(_, service)| owns(service))?;
        let (_, port) = ports(service, protocol).find(|(number, _)| *number == address.port())?;
        self.endpoints(key).remove(port.name.as_deref().unwrap_or_default())
    }

    /// Returns the UDP addresses of all Services.
    pub(crate) fn udp_addresses(&self) -> HashSet<SocketAddr> {
        let of_service = |service| {
            let addresses = [cluster_ip(service), balancer(service)].into_iter().flatten();
            let places = move |(port, _)| addresses.clone().map(move |own| SocketAddr::from((own, port)));
            ports(service, UDP).flat_map(places)
        };
        self.services.values().flat_map(of_service).collect()
    }

    /// Returns whether an address belongs to a load balancer.
    pub(crate) fn is_balancer(&self, address: SocketAddr) -> bool {
        self.services.values().filter_map(balancer).any(|own| address.ip() == own)
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

    /// Returns all endpoints for the connection with this number, best first: draining ones only if
    /// there are no others.
    pub(crate) fn in_turn(self, number: usize) -> Vec<SocketAddr> {
        let mut all = if self.ready.is_empty() { self.draining } else { self.ready };
        if !all.is_empty() {
            let first = number % all.len();
            all.rotate_left(first);
        }
        all
    }
}

/// Relays a connection to the first endpoint to which `connect` succeeds, until either side ends
/// it. Sends `header` to the endpoint first.
pub(crate) async fn relay<C: Future<Output = io::Result<TcpStream>>>(
    mut client: TcpStream,
    endpoints: Vec<SocketAddr>,
    header: Option<String>,
    connect: impl Fn(SocketAddr) -> C,
) {
    for endpoint in endpoints {
        if let Ok(mut server) = connect(endpoint).await {
            for stream in [&client, &server] {
                let _ = stream.set_nodelay(true);
            }
            if server.write_all(header.as_deref().unwrap_or_default().as_bytes()).await.is_err() {
                return;
            }
            // An error means that one side broke off; both are closed then.
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            return;
        }
    }
}

fn service_of(slice: &EndpointSlice) -> Option<String> {
    let name = slice.labels().get("kubernetes.io/service-name")?;
    Some(format!("{}/{name}", slice.namespace()?))
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
        let candidates = |endpoints: &[Endpoint]| {
            let mut candidates = Candidates::default();
            endpoints.iter().for_each(|endpoint| candidates.add(endpoint, 80));
            candidates
        };
        let all = candidates(&[
            endpoint("10.0.0.1", true, true),
            endpoint("10.0.0.2", true, true),
            endpoint("10.0.0.3", false, true),
        ]);
        let (first, second) = (all.clone().in_turn(0), all.in_turn(1));
        assert_eq!(first.len(), 2);
        assert_ne!(first[0], second[0]);
        let left = candidates(&[endpoint("10.0.0.3", false, true), endpoint("10.0.0.4", false, false)]);
        assert_eq!(left.in_turn(7), ["10.0.0.3:80".parse().unwrap()]);
        assert!(Candidates::default().in_turn(1).is_empty());
    }

    #[test]
    fn a_service_is_answered_where_it_selects_pods() {
        let service = |value: serde_json::Value| balancer(&serde_json::from_value(value).unwrap());
        let status = json!({"loadBalancer": {"ingress": [{"ip": "10.97.0.1"}]}});
        let address = Some(Ipv4Addr::new(10, 97, 0, 1));
        assert_eq!(service(json!({"spec": {"selector": {"a": "b"}}, "status": status})), address);
        assert_eq!(service(json!({"spec": {"clusterIP": "10.96.0.9"}, "status": status})), None);
        assert_eq!(service(json!({"spec": {"selector": {"a": "b"}}})), None);
    }

    #[test]
    fn datagrams_come_in_at_the_udp_ports_of_both_addresses_of_a_service() {
        let mut known = Known::default();
        let service = json!({
            "spec": {"clusterIP": "10.96.0.9", "selector": {"a": "b"}, "ports": [{"name": "tcp", "port": 53},
                {"name": "udp", "port": 53, "protocol": "UDP"}]},
            "status": {"loadBalancer": {"ingress": [{"ip": "10.97.0.1"}]}},
        });
        known.services.insert("n/names".into(), serde_json::from_value(service).unwrap());
        let headless = json!({"spec": {"clusterIP": "None", "ports": [{"port": 53, "protocol": "UDP"}]}});
        known.services.insert("n/headless".into(), serde_json::from_value(headless).unwrap());
        let (own, balancer) = ("10.96.0.9:53".parse().unwrap(), "10.97.0.1:53".parse().unwrap());
        assert_eq!(known.udp_addresses(), HashSet::from([own, balancer]));
        assert!(known.is_balancer(balancer) && !known.is_balancer(own));
    }

    #[test]
    fn a_port_of_a_service_address_leads_to_the_endpoints_of_that_port() {
        let mut known = Known::default();
        let service = json!({"spec": {"clusterIP": "10.96.0.9", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}});
        known.services.insert("n/web".into(), serde_json::from_value(service).unwrap());
        let slice = json!({
            "metadata": {"namespace": "n", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "ports": [{"name": "b", "port": 8081}],
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}}],
        });
        known.slices.insert("n/web-1".into(), serde_json::from_value(slice).unwrap());
        let behind =
            |address: &str| known.behind(address.parse().unwrap(), TCP).map(|found| found.in_turn(0));
        assert_eq!(behind("10.96.0.9:81"), Some(vec!["10.0.0.1:8081".parse().unwrap()]));
        assert_eq!((behind("10.96.0.9:80"), behind("10.96.0.8:81")), (None, None));
    }
}
