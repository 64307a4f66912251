//! `v1` Service, pruned.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use sluice_config::{NamespacedName, TransportProtocol, UpstreamProtocol};

use super::identity::ObjectIdentity;
use super::names::InternedNames;

/// The part of a Service that translation reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Namespace and name.
    pub name: NamespacedName,
    /// Distinguishes objects that had this name at different times.
    pub identity: ObjectIdentity,
    /// `spec.externalName`, if `spec.type` is `ExternalName`.
    pub external_name: Option<Box<str>>,
    /// `spec.clusterIP`, if it is an address. Requests use it only with `service-upstream`.
    pub cluster_ip: Option<IpAddr>,
    /// The `spec.ports` with protocol TCP.
    pub ports: Box<[ServicePort]>,
    /// `spec.ports` that are UDP.
    pub udp_ports: Box<[ServicePort]>,
}

/// `spec.ports[]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// `name`, by which EndpointSlices identify the port. Empty for the only port of a Service.
    pub name: Arc<str>,
    /// `port`.
    pub number: i32,
    /// `targetPort`.
    pub target: TargetPort,
    /// The protocol from `appProtocol`; HTTP if it is absent or unknown.
    pub protocol: UpstreamProtocol,
}

/// `spec.ports[].targetPort`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPort {
    /// Equal to `port`.
    Same,
    /// A port number of the Pods.
    Number(i32),
    /// A named container port, which may differ between Pods.
    Name(Box<str>),
}

impl Service {
    pub(super) fn pruned(name: NamespacedName, object: core::Service, names: &InternedNames) -> Self {
        let identity = ObjectIdentity::of(&object.metadata);
        let spec = object.spec.unwrap_or_default();
        let ports = spec.ports.unwrap_or_default();
        let of = |protocol: &str| {
            let is_of = |port: &&core::ServicePort| port.protocol.as_deref().unwrap_or("TCP") == protocol;
            ports.iter().filter(is_of).map(|port| ServicePort::pruned(port.clone(), names)).collect()
        };
        let external = spec.type_.as_deref() == Some("ExternalName");
        Self {
            name,
            identity,
            cluster_ip: spec.cluster_ip.and_then(|ip| ip.parse().ok()).filter(|_| !external),
            external_name: external.then(|| spec.external_name.unwrap_or_default().into()),
            ports: of("TCP"),
            udp_ports: of("UDP"),
        }
    }
}

impl Service {
    /// The ports of a transport protocol.
    pub fn ports_of(&self, transport: TransportProtocol) -> &[ServicePort] {
        match transport {
            TransportProtocol::Tcp => &self.ports,
            TransportProtocol::Udp => &self.udp_ports,
        }
    }

    /// Returns the port of this name, which is empty for the only port of a Service.
    pub fn port_named(&self, name: &str) -> Option<(TransportProtocol, &ServicePort)> {
        let of = |transport| {
            let port = self.ports_of(transport).iter().find(|port| *port.name == *name)?;
            Some((transport, port))
        };
        of(TransportProtocol::Tcp).or_else(|| of(TransportProtocol::Udp))
    }
}

impl ServicePort {
    /// Returns the port number of the Pods, unless they name it.
    pub fn target_number(&self) -> Option<u16> {
        let number = match self.target {
            TargetPort::Same => self.number,
            TargetPort::Number(number) => number,
            TargetPort::Name(_) => return None,
        };
        u16::try_from(number).ok().filter(|number| *number > 0)
    }

    fn pruned(port: core::ServicePort, names: &InternedNames) -> Self {
        Self {
            protocol: protocol(port.app_protocol.as_deref().unwrap_or_default()),
            name: names.share(&port.name.unwrap_or_default()),
            number: port.port,
            target: match port.target_port {
                None => TargetPort::Same,
                Some(IntOrString::Int(number)) => TargetPort::Number(number),
                Some(IntOrString::String(name)) => TargetPort::Name(name.into()),
            },
        }
    }
}

/// Returns the protocol for a name of Kubernetes (KEP-3726) or IANA. Unknown names are ignored: the
/// field is a hint, and other implementations define names of their own.
fn protocol(app_protocol: &str) -> UpstreamProtocol {
    match app_protocol.to_ascii_lowercase().as_str() {
        "https" | "kubernetes.io/wss" => UpstreamProtocol::HttpsUnverified,
        "kubernetes.io/h2c" | "grpc" => UpstreamProtocol::Grpc,
        "grpcs" => UpstreamProtocol::GrpcsUnverified,
        _ => UpstreamProtocol::Http,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_the_protocol_of_app_protocol() {
        for (said, protocol_of) in [
            ("", UpstreamProtocol::Http),
            ("http", UpstreamProtocol::Http),
            ("kubernetes.io/ws", UpstreamProtocol::Http),
            ("mongo", UpstreamProtocol::Http),
            ("HTTPS", UpstreamProtocol::HttpsUnverified),
            ("kubernetes.io/wss", UpstreamProtocol::HttpsUnverified),
            ("kubernetes.io/h2c", UpstreamProtocol::Grpc),
            ("grpc", UpstreamProtocol::Grpc),
            ("grpcs", UpstreamProtocol::GrpcsUnverified),
        ] {
            assert_eq!(protocol(said), protocol_of, "{said}");
        }
    }
}
