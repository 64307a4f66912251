//! The listener group and the pool of one TCP or UDP service.

use std::sync::Arc;

use sluice_config::{
    Balance, Bind, BindProtocol, Code, EndpointSetKey, GroupId, ListenerGroup, NamespacedName, Problem,
    ServiceRef, Stream, StreamKey, TransportProtocol, UpstreamProtocol,
};

use super::config_map;
use super::services::{StreamEntry, field, object};
use crate::problem::error;
use crate::store::PortRef;
use crate::translate::backend::{self, BackendUsage, Unresolved, Uses};
use crate::translate::view::View;

/// The result of the node; no group if its Service port is unusable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamOutput {
    /// The socket and its target.
    pub(crate) group: Option<Arc<ListenerGroup>>,
    /// The pool.
    pub(crate) uses: Uses,
}

/// Computes the node. A Service without endpoints keeps its port open: connections are closed at
/// once, and a rollout does not unbind the port.
pub(crate) fn compute(view: &View<'_>, key: &StreamKey) -> (StreamOutput, Vec<Problem>) {
    let (Some(entry), Some(map)) = (view.stream_entry(key), config_map(view.options, key.transport)) else {
        return Default::default();
    };
    let port = key.port.to_string();
    let StreamEntry { service, port: service_port, accepts_proxy, sends_proxy, .. } = entry;
    // A number in digits is never a name: those need a letter.
    let wanted = match service_port.parse() {
        Ok(number) => PortRef::Number(number),
        Err(_) => PortRef::Name(service_port.clone()),
    };
    let known = view.service(service).map(|service| &**service);
    let found = match backend::stream_port(known, service, &wanted, key.transport, view.options) {
        Ok(found) => found,
        Err(fault) => return (StreamOutput::default(), vec![unresolved(&fault, entry, view, map, &port)]),
    };
    let endpoints =
        EndpointSetKey { namespace: service.namespace.clone(), service: service.name.clone(), port: found };
    let protocol = match key.transport {
        TransportProtocol::Tcp => UpstreamProtocol::Tcp,
        TransportProtocol::Udp => UpstreamProtocol::Udp,
    };
    let usage = BackendUsage { balance: Balance::RoundRobin, ..BackendUsage::default() };
    let mut uses = Uses::default();
    let stream = Stream {
        pool: uses.pool(backend::pool(endpoints, protocol, &usage)),
        service: ServiceRef {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            port: (**service_port).into(),
        },
        accepts_proxy: *accepts_proxy,
        sends_proxy: *sends_proxy,
    };
    let bind = Bind {
        addresses: view.bind_addresses().to_vec(),
        port: key.port,
        declared_port: key.port,
        protocol: match key.transport {
            TransportProtocol::Tcp => BindProtocol::Tcp,
            TransportProtocol::Udp => BindProtocol::Udp,
        },
        source: format!("{} of ConfigMap {map}", field(&port)).into(),
    };
    let group = ListenerGroup {
        id: GroupId::stream(*key),
        binds: vec![bind],
        listeners: Vec::new(),
        required: false,
        stream: Some(Arc::new(stream)),
    };
    (StreamOutput { group: Some(Arc::new(group)), uses }, Vec::new())
}

fn unresolved(
    fault: &Unresolved,
    entry: &StreamEntry,
    view: &View<'_>,
    map: &NamespacedName,
    port: &str,
) -> Problem {
    let is_elsewhere =
        view.options.watch_namespace.as_deref().is_some_and(|only| *only != *entry.service.namespace);
    let remedy = match (fault.code(), is_elsewhere) {
        (Code::ServiceNotFound, true) => {
            "name a Service of the watched namespace, or watch all namespaces (--watch-namespace)"
        }
        (Code::ServiceNotFound, false) => "create the Service, or correct the entry",
        _ => "correct the entry or the Service",
    };
    let message = format!("{fault}; the port is not open");
    error(fault.code(), &object(map), field(port), message, remedy)
}
