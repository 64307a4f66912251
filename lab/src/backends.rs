//! Services and their endpoints as the watch has told them, and the relay of a connection to one of them: what
//! addresses of load balancers and of Services have in common.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::ResourceExt;
use kube::runtime::watcher;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// All Services and EndpointSlices, by namespace and name.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) services: HashMap<String, Service>,
    pub(crate) slices: HashMap<String, EndpointSlice>,
}

/// A Service's endpoints for each port name.
pub(crate) type Ports = BTreeMap<String, Candidates>;

/// Endpoints that may be asked, by how gladly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    ready: Vec<SocketAddr>,
    draining: Vec<SocketAddr>,
}

/// Keeps what was seen. What was deleted while nobody watched stays listed; its endpoints answer no more.
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

/// The TCP ports of a Service.
pub(crate) fn tcp_ports(service: &Service) -> impl Iterator<Item = (u16, &ServicePort)> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let tcp = ports.filter(|port| port.protocol.as_deref().unwrap_or("TCP") == "TCP");
    tcp.filter_map(|port| Some((u16::try_from(port.port).ok()?, port)))
}

impl Known {
    /// The endpoints of the Service `namespace/name` by port name.
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

    /// The endpoints behind a port of a Service's own address.
    pub(crate) fn behind(&self, address: SocketAddr) -> Option<Candidates> {
        let ip = address.ip().to_string();
        let owns = |service: &Service| {
            service.spec.as_ref().is_some_and(|spec| spec.cluster_ip.as_deref() == Some(&ip))
        };
        let (key, service) = self.services.iter().find(|(_, service)| owns(service))?;
        let (_, port) = tcp_ports(service).find(|(number, _)| *number == address.port())?;
        self.endpoints(key).remove(port.name.as_deref().unwrap_or_default())
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

    /// All endpoints for the connection of this number, best first: draining ones when no other is left.
    pub(crate) fn in_turn(self, number: usize) -> Vec<SocketAddr> {
        let mut all = if self.ready.is_empty() { self.draining } else { self.ready };
        if !all.is_empty() {
            let first = number % all.len();
            all.rotate_left(first);
        }
        all
    }
}

/// Relays a connection to the first endpoint that accepts one, until either side ends it. The endpoint gets `header` first.
pub(crate) async fn relay(mut client: TcpStream, endpoints: Vec<SocketAddr>, header: Option<String>) {
    for endpoint in endpoints {
        if let Ok(mut server) = TcpStream::connect(endpoint).await {
            for stream in [&client, &server] {
                let _ = stream.set_nodelay(true);
            }
            if server.write_all(header.as_deref().unwrap_or_default().as_bytes()).await.is_err() {
                return;
            }
            // Either side may break off at any time; both ends are closed then.
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
        let behind = |address: &str| known.behind(address.parse().unwrap()).map(|found| found.in_turn(0));
        assert_eq!(behind("10.96.0.9:81"), Some(vec!["10.0.0.1:8081".parse().unwrap()]));
        assert_eq!((behind("10.96.0.9:80"), behind("10.96.0.8:81")), (None, None));
    }
}
