//! `discovery.k8s.io/v1` EndpointSlice, pruned. The most numerous kind, hence one flat entry per
//! address.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::discovery::v1 as discovery;
use sluice_config::{NamespacedName, TransportProtocol};

use super::identity::ObjectIdentity;
use super::names::InternedNames;
use super::prune::Prune;

const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The part of an EndpointSlice that translation reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSlice {
    /// Namespace and name.
    pub name: NamespacedName,
    /// Distinguishes objects that had this name at different times.
    pub identity: ObjectIdentity,
    /// The Service, by label `kubernetes.io/service-name`. The name is empty without the label.
    pub service: NamespacedName,
    /// `addressType`.
    pub address_type: AddressType,
    /// The `ports` with protocol TCP and a number.
    pub ports: Box<[SlicePort]>,
    /// `ports` that are UDP and have a number.
    pub udp_ports: Box<[SlicePort]>,
    /// Whether `ports` has no number, so that the endpoints serve every port.
    pub is_unrestricted: bool,
    /// One entry per address of `endpoints`.
    pub endpoints: Box<[SliceEndpoint]>,
    /// Addresses that do not match `address_type`.
    pub bad_addresses: Box<[Box<str>]>,
}

/// `addressType`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressType {
    /// Addresses of IP version 4 or 6.
    Ip,
    /// Anything else, such as `FQDN`, which is not served.
    Other(Box<str>),
}

/// `ports[]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePort {
    /// `name`: the name of the Service's port.
    pub name: Arc<str>,
    /// `port`, resolved.
    pub number: u16,
}

/// An address of `endpoints[]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// The address.
    pub address: IpAddr,
    /// `conditions.ready`, true when absent.
    pub ready: bool,
    /// `conditions.serving`; the value of `ready` when absent.
    pub serving: bool,
    /// `conditions.terminating`, false when absent.
    pub terminating: bool,
    /// `zone`.
    pub zone: Option<Arc<str>>,
    /// `hints`. Kept only with `--enable-topology-aware-routing`.
    pub hints: Option<Arc<Hints>>,
}

/// `hints` of `endpoints[]`: the consumers that should use the endpoint. The control plane of
/// Kubernetes writes them if the Service sets `spec.trafficDistribution` or the annotation
/// `service.kubernetes.io/topology-mode`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// `forZones`: names of zones.
    pub zones: Box<[Arc<str>]>,
    /// `forNodes`: names of nodes.
    pub nodes: Box<[Arc<str>]>,
}

impl EndpointSlice {
    pub(super) fn pruned(name: NamespacedName, object: discovery::EndpointSlice, prune: &Prune) -> Self {
        let names = &prune.names;
        let identity = ObjectIdentity::of(&object.metadata);
        let labels = object.metadata.labels.unwrap_or_default();
        let service = NamespacedName {
            namespace: name.namespace.clone(),
            name: labels.get(SERVICE_LABEL).map(String::as_str).unwrap_or_default().into(),
        };
        let address_type = match object.address_type.as_str() {
            "IPv4" | "IPv6" => AddressType::Ip,
            other => AddressType::Other(other.into()),
        };
        let mut endpoints = Vec::new();
        let mut bad_addresses = Vec::new();
        if address_type == AddressType::Ip {
            for endpoint in object.endpoints.unwrap_or_default() {
                let conditions = endpoint.conditions.unwrap_or_default();
                let ready = conditions.ready.unwrap_or(true);
                let zone = endpoint.zone.map(|zone| names.share(&zone));
                let hints = endpoint.hints.filter(|_| prune.hints).map(|hints| Hints::pruned(hints, names));
                for address in endpoint.addresses {
                    match address.parse() {
                        Ok(address) => endpoints.push(SliceEndpoint {
                            address,
                            ready,
                            serving: conditions.serving.unwrap_or(ready),
                            terminating: conditions.terminating.unwrap_or(false),
                            zone: zone.clone(),
                            hints: hints.clone(),
                        }),
                        Err(_) => bad_addresses.push(address.into()),
                    }
                }
            }
        }
        let ports = object.ports.unwrap_or_default();
        let of = |protocol: &str| {
            let is_of =
                |port: &&discovery::EndpointPort| port.protocol.as_deref().unwrap_or("TCP") == protocol;
            ports.iter().filter(is_of).filter_map(|port| SlicePort::pruned(port, names)).collect()
        };
        Self {
            name,
            identity,
            service,
            address_type,
            ports: of("TCP"),
            udp_ports: of("UDP"),
            is_unrestricted: ports.iter().all(|port| port.port.is_none()),
            endpoints: endpoints.into(),
            bad_addresses: bad_addresses.into(),
        }
    }

    /// The ports of a transport protocol.
    pub fn ports_of(&self, transport: TransportProtocol) -> &[SlicePort] {
        match transport {
            TransportProtocol::Tcp => &self.ports,
            TransportProtocol::Udp => &self.udp_ports,
        }
    }
}

impl Hints {
    fn pruned(hints: discovery::EndpointHints, names: &InternedNames) -> Arc<Self> {
        let zones = hints.for_zones.unwrap_or_default();
        let nodes = hints.for_nodes.unwrap_or_default();
        Arc::new(Self {
            zones: zones.iter().map(|zone| names.share(&zone.name)).collect(),
            nodes: nodes.iter().map(|node| names.share(&node.name)).collect(),
        })
    }
}

impl SlicePort {
    fn pruned(port: &discovery::EndpointPort, names: &InternedNames) -> Option<Self> {
        let number = u16::try_from(port.port?).ok().filter(|number| *number > 0)?;
        Some(Self { name: names.share(port.name.as_deref().unwrap_or_default()), number })
    }
}
