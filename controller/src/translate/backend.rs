//! Resolves backend references to pools, and records the pools and certificates that a node uses.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use sluice_config::{
    Backend, Balance, CertificateId, Code, EndpointSetKey, HealthCheck, NamespacedName, ObjectRef, Pool,
    PoolKey, Problem, ResourceKey, ServiceRef, TransportProtocol, UpstreamProtocol,
};

use super::external_name;
use super::view::View;
use crate::options::Options;
use crate::problem::{error, warning};
use crate::store::{BackendRef, PortRef, Service, ServicePort, TargetPort};

/// The objects that a node refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    /// Pools, each once.
    pub(crate) pools: Vec<Arc<Pool>>,
    /// Certificates, each once.
    pub(crate) certificates: Vec<CertificateId>,
    /// Resources, each once.
    pub(crate) resources: Vec<ResourceKey>,
}

impl Uses {
    /// Adds a resource.
    pub(crate) fn resource(&mut self, key: &ResourceKey) {
        if !self.resources.contains(key) {
            self.resources.push(key.clone());
        }
    }

    /// Adds a pool.
    pub(crate) fn pool(&mut self, pool: Pool) -> PoolKey {
        let key = pool.key.clone();
        if !self.pools.iter().any(|known| known.key == key) {
            // Nearly every node has one.
            self.pools.reserve_exact(1);
            self.pools.push(Arc::new(pool));
        }
        key
    }
}

/// Returns the key of a Service port's endpoints.
pub(crate) fn endpoints(service: &Service, port: &ServicePort) -> EndpointSetKey {
    EndpointSetKey {
        namespace: service.name.namespace.clone(),
        service: service.name.name.clone(),
        port: port.name.clone(),
    }
}

/// Returns the first port of a Service, with this protocol, for replacement backends, which name no
/// port. For an ExternalName Service it is the `targetPort` of that port, as in ingress-nginx.
pub(crate) fn replacement_service(
    view: &View<'_>,
    name: &NamespacedName,
    protocol: UpstreamProtocol,
    uses: &mut Uses,
) -> Result<(PoolKey, ServiceRef), Unresolved> {
    let service = view.service(name).map(|service| &**service);
    let first = service.and_then(|service| service.ports.first());
    let port = first.map_or(PortRef::Missing, |port| PortRef::Number(port.number));
    let found = find(service, name, &port, view.options)?;
    let (namespace, name) = (name.namespace.clone(), name.name.clone());
    let endpoints = EndpointSetKey { namespace: namespace.clone(), service: name.clone(), port: found.port };
    let pool = pool(endpoints, protocol, &BackendUsage::default());
    let number = first.map_or(found.number, |port| port.number);
    let shown = ServiceRef { namespace, name, port: number.to_string().into() };
    Ok((uses.pool(pool), shown))
}

/// Settings for the use of a Service port's endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BackendUsage {
    /// The load balancing strategy.
    pub(crate) balance: Balance,
    /// Time until a new endpoint gets its full share.
    pub(crate) slow_start: Option<Duration>,
    /// The active health check.
    pub(crate) health_check: Option<Arc<HealthCheck>>,
}

impl BackendUsage {
    /// Returns the settings and the protocol as text, so that equal pools have equal keys.
    fn text(&self, protocol: UpstreamProtocol) -> Arc<str> {
        static USUAL: LazyLock<[[Arc<str>; 5]; 7]> = LazyLock::new(|| {
            ["http", "https", "grpc", "grpcs", "tcp", "udp", "fastcgi"].map(|protocol| {
                ["", ",round-robin", ",ewma", ",least-connections", ",ring"]
                    .map(|balance| format!("{protocol}{balance}").into())
            })
        });
        let protocol = match protocol {
            UpstreamProtocol::Http => 0,
            UpstreamProtocol::HttpsUnverified => 1,
            UpstreamProtocol::Grpc => 2,
            UpstreamProtocol::GrpcsUnverified => 3,
            UpstreamProtocol::Tcp => 4,
            UpstreamProtocol::Udp => 5,
            UpstreamProtocol::FastCgi => 6,
        };
        let balance = match self.balance {
            Balance::Inherit => 0,
            Balance::RoundRobin => 1,
            Balance::Ewma => 2,
            Balance::LeastConnections => 3,
            Balance::Ring => 4,
        };
        let usual = &USUAL[protocol][balance];
        if self.slow_start.is_none() && self.health_check.is_none() {
            return usual.clone();
        }
        let mut text = usual.to_string();
        // Writing to a String cannot fail.
        if let Some(window) = self.slow_start {
            let _ = write!(text, ", slow start {window:?}");
        }
        if let Some(check) = &self.health_check {
            let _ = write!(text, ", {check}");
        }
        text.into()
    }
}

/// Returns a pool of a Service port.
pub(crate) fn pool(endpoints: EndpointSetKey, protocol: UpstreamProtocol, usage: &BackendUsage) -> Pool {
    let BackendUsage { balance, slow_start, ref health_check } = *usage;
    let key = PoolKey { endpoints, policy: usage.text(protocol) };
    Pool { key, protocol, balance, slow_start, health_check: health_check.clone() }
}

/// A backend reference and its location.
pub(crate) struct BackendReference<'a> {
    /// The object that contains it.
    pub(crate) object: &'a ObjectRef,
    /// The field of that object: `spec.rules[0].http.paths[1].backend`.
    pub(crate) field: &'a dyn Fn() -> String,
    /// The reference.
    pub(crate) backend: &'a BackendRef,
    /// Protocol to the endpoints; `None` is that of the Service port.
    pub(crate) protocol: Option<UpstreamProtocol>,
    /// Settings for the use of its endpoints.
    pub(crate) usage: BackendUsage,
    /// Whether requests go to the Service's address instead of its endpoints.
    pub(crate) by_address: bool,
    /// The effect on requests if it is unusable.
    pub(crate) otherwise: &'static str,
}

/// The effect on requests with an unusable backend.
pub(crate) const UNSERVED: &str = "its requests get 503";

impl BackendReference<'_> {
    /// Looks up the Service and its port. A missing or invalid one answers 503.
    pub(crate) fn resolve(&self, view: &View<'_>, uses: &mut Uses, problems: &mut Vec<Problem>) -> Backend {
        let (name, port) = match self.backend {
            BackendRef::Service { name, port } => (name, port),
            BackendRef::Resource => {
                let reason = "a resource backend is not served";
                let message = format!("{reason}; {}", self.otherwise);
                let field = format!("{}.resource", (self.field)());
                problems.push(error(Code::BackendNotServed, self.object, field, message, "name a Service"));
                return Backend::Invalid { status: 503, service: None, reason: reason.into() };
            }
            BackendRef::Missing => {
                let reason = "no Service is named";
                let message = format!("{reason}; {}", self.otherwise);
                problems.push(error(
                    Code::BackendMissing,
                    self.object,
                    (self.field)(),
                    message,
                    "name a Service and one of its ports",
                ));
                return Backend::Invalid { status: 503, service: None, reason: reason.into() };
            }
        };
        let id = NamespacedName { namespace: self.object.name.namespace.clone(), name: (**name).into() };
        let service = view.service(&id);
        let text: Arc<str> = match port {
            PortRef::Number(number) => number.to_string().into(),
            PortRef::Name(name) => (**name).into(),
            PortRef::Missing => "".into(),
        };
        let names = service.map_or(&id, |service| &service.name);
        let shown = ServiceRef { namespace: names.namespace.clone(), name: names.name.clone(), port: text };
        match find(service.map(|service| &**service), &id, port, view.options) {
            Ok(found) => {
                if let Some(warned) = found.warning {
                    let field = format!("{}.service.port", (self.field)());
                    problems.push(warning(
                        Code::ServicePortByTarget,
                        self.object,
                        field,
                        warned,
                        "name the Service's own port",
                    ));
                }
                let own = |address: IpAddr| EndpointSetKey {
                    // An empty namespace marks a target that is not a Service.
                    namespace: "".into(),
                    service: address.to_string().into(),
                    port: found.number.to_string().into(),
                };
                let address = service.and_then(|service| service.cluster_ip).filter(|_| self.by_address);
                if self.by_address
                    && address.is_none()
                    && service.is_some_and(|service| service.external_name.is_none())
                {
                    problems.push(self.without_address(&id));
                }
                let key = address.map(own).unwrap_or_else(|| EndpointSetKey {
                    namespace: names.namespace.clone(),
                    service: names.name.clone(),
                    port: found.port.clone(),
                });
                let protocol = self.protocol.unwrap_or(found.protocol);
                let pool = uses.pool(pool(key, protocol, &self.usage));
                Backend::Pool { pool, service: shown }
            }
            Err(fault) => {
                let field = format!("{}.service.{}", (self.field)(), fault.field());
                let message = format!("{fault}; {}", self.otherwise);
                problems.push(error(fault.code(), self.object, field, message, fault.remedy()));
                let reason = crate::problem::reason(&fault.to_string());
                Backend::Invalid { status: 503, service: Some(shown), reason }
            }
        }
    }
}

impl BackendReference<'_> {
    fn without_address(&self, service: &NamespacedName) -> Problem {
        warning(
            Code::ServiceAddressMissing,
            self.object,
            format!("{}.service.name", (self.field)()),
            format!(
                "Service {service} has no address (clusterIP), which service-upstream asks for; its endpoints are used"
            ),
            "give the Service a clusterIP, or set service-upstream to false",
        )
    }
}

struct Found {
    /// Identifies the endpoints: the name of the port, or the number of one of a Service without
    /// endpoints.
    port: Arc<str>,
    /// The number of the port.
    number: i32,
    protocol: UpstreamProtocol,
    warning: Option<String>,
}

/// Why a Service port is unusable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unresolved {
    #[error("Service {0} does not exist")]
    NoService(NamespacedName),
    #[error("Service {service} is of type ExternalName, and the name {name:?} {reason}")]
    External { service: NamespacedName, name: Box<str>, reason: &'static str },
    #[error("Service {0} is of type ExternalName, which --disable-svc-external-name refuses")]
    ExternalRefused(NamespacedName),
    #[error("Service {service} has no {transport} port {port}; it has {ports}")]
    NoPort { service: NamespacedName, transport: TransportProtocol, port: String, ports: String },
}

impl Unresolved {
    fn field(&self) -> &'static str {
        match self {
            Self::NoService(_) | Self::External { .. } | Self::ExternalRefused(_) => "name",
            Self::NoPort { .. } => "port",
        }
    }

    /// Returns the code of the problem.
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::NoService(_) => Code::ServiceNotFound,
            Self::External { .. } | Self::ExternalRefused(_) => Code::ServiceExternal,
            Self::NoPort { .. } => Code::ServicePortNotFound,
        }
    }

    fn remedy(&self) -> &'static str {
        match self {
            Self::NoService(_) => "create the Service in the namespace of the Ingress, or name another one",
            Self::External { .. } => "name a host outside of the gateway's own machine",
            Self::ExternalRefused(_) => "make it a Service without selector and give it EndpointSlices",
            Self::NoPort { .. } => "name one of its ports, by number or name",
        }
    }
}

/// Returns the number of a Service's port, and its protocol according to the Service.
pub(crate) fn protocol_of(
    service: Option<&Service>,
    name: &NamespacedName,
    port: &PortRef,
    options: &Options,
) -> Option<(i32, UpstreamProtocol)> {
    find(service, name, port, options).ok().map(|found| (found.number, found.protocol))
}

/// Finds a port by `port` or `name`, as Kubernetes does, or else by `targetPort`, as ingress-nginx
/// does.
fn find(
    service: Option<&Service>,
    name: &NamespacedName,
    port: &PortRef,
    options: &Options,
) -> Result<Found, Unresolved> {
    let service = service.ok_or_else(|| Unresolved::NoService(name.clone()))?;
    if let Some(external) = &service.external_name {
        return find_external(service, TransportProtocol::Tcp, external, name, port, options);
    }
    let ports = &service.ports;
    let (own, target, shown) = match port {
        PortRef::Number(number) => (
            ports.iter().find(|port| port.number == *number),
            ports.iter().find(|port| port.target == TargetPort::Number(*number)),
            number.to_string(),
        ),
        PortRef::Name(name) => (
            ports.iter().find(|port| !port.name.is_empty() && *port.name == **name),
            ports.iter().find(|port| matches!(&port.target, TargetPort::Name(target) if target == name)),
            name.to_string(),
        ),
        PortRef::Missing => (None, None, "(none is named)".to_owned()),
    };
    if let Some(port) = own {
        return Ok(Found {
            port: port.name.clone(),
            number: port.number,
            protocol: port.protocol,
            warning: None,
        });
    }
    if let Some(port) = target {
        let warning = format!(
            "{shown} is not a port of Service {name}; it is the targetPort of port {}, which is used instead",
            port.number
        );
        return Ok(Found {
            port: port.name.clone(),
            number: port.number,
            protocol: port.protocol,
            warning: Some(warning),
        });
    }
    Err(no_port(service, TransportProtocol::Tcp, name, shown))
}

/// Returns the port of a TCP or UDP service, by `port` or `name` only, as in ingress-nginx.
pub(crate) fn stream_port(
    service: Option<&Service>,
    name: &NamespacedName,
    port: &PortRef,
    transport: TransportProtocol,
    options: &Options,
) -> Result<Arc<str>, Unresolved> {
    let service = service.ok_or_else(|| Unresolved::NoService(name.clone()))?;
    let own = known_port(service, transport, port);
    let shown = match port {
        PortRef::Number(number) => number.to_string(),
        PortRef::Name(name) => name.to_string(),
        PortRef::Missing => "(none is named)".to_owned(),
    };
    if let Some(external) = &service.external_name {
        let found = find_external(service, transport, external, name, port, options)?;
        // Unlike a backend of HTTP, a stream uses no number beside the ports of the Service.
        if own.is_some() || service.ports_of(transport).is_empty() {
            return Ok(found.port);
        }
    }
    own.map(|own| own.name.clone()).ok_or_else(|| no_port(service, transport, name, shown))
}

/// Returns the port of a Service with this number or name.
fn known_port<'s>(
    service: &'s Service,
    transport: TransportProtocol,
    port: &PortRef,
) -> Option<&'s ServicePort> {
    service.ports_of(transport).iter().find(|known| match port {
        PortRef::Number(number) => known.number == *number,
        PortRef::Name(name) => !known.name.is_empty() && *known.name == **name,
        PortRef::Missing => false,
    })
}

/// An ExternalName Service needs no ports: a number that it does not list is used directly. For a
/// port that it has, `targetPort` is used, as in ingress-nginx.
fn find_external(
    service: &Service,
    transport: TransportProtocol,
    external: &str,
    name: &NamespacedName,
    port: &PortRef,
    options: &Options,
) -> Result<Found, Unresolved> {
    if options.disable_svc_external_name {
        return Err(Unresolved::ExternalRefused(name.clone()));
    }
    if let Err(reason) = external_name::read(external) {
        return Err(Unresolved::External { service: name.clone(), name: external.into(), reason });
    }
    let missing = |shown: String| no_port(service, transport, name, shown);
    let (number, protocol) = match (known_port(service, transport, port), port) {
        (Some(known), _) => match known.target {
            TargetPort::Number(number) => (number, known.protocol),
            TargetPort::Same | TargetPort::Name(_) => (known.number, known.protocol),
        },
        (None, PortRef::Number(number)) => (*number, UpstreamProtocol::Http),
        (None, PortRef::Name(port)) => return Err(missing(port.to_string())),
        (None, PortRef::Missing) => return Err(missing("(none is named)".to_owned())),
    };
    Ok(Found { port: number.to_string().into(), number, protocol, warning: None })
}

fn no_port(
    service: &Service,
    transport: TransportProtocol,
    name: &NamespacedName,
    shown: String,
) -> Unresolved {
    let mut have = String::new();
    for port in service.ports_of(transport) {
        let separator = if have.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(have, "{separator}{}", port.number);
        if !port.name.is_empty() {
            let _ = write!(have, " ({})", port.name);
        }
    }
    let ports = if have.is_empty() { "none".to_owned() } else { have };
    Unresolved::NoPort { service: name.clone(), transport, port: shown, ports }
}
