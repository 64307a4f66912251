//! The endpoints of a Service port, from its EndpointSlices. No other node reads these, so a Pod
//! that appears or disappears recomputes only this node, however many Ingresses share the Service.

mod ports;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sluice_config::local_address::is_local;
use sluice_config::{Code, Endpoint, EndpointSet, EndpointSetKey, NamespacedName, ObjectRef, Problem};

use super::external_name::{self, External};
use super::topology::{self, AddressFacts};
use super::view::View;
use crate::problem::{error, warning};
use crate::store::{AddressType, EndpointSlice, Resolved, Service, SliceEndpoint};

/// The result: the endpoints, problems, and the name to resolve for them, if any.
pub(crate) type EndpointsOutput = (Arc<EndpointSet>, Vec<Problem>, Option<Arc<str>>);

/// Computes the node. Uses the ready endpoints, restricted to near ones if hints apply; if there
/// are none, those that are terminating but still serving (KEP-1669). An address in several slices
/// counts once.
pub(crate) fn compute(view: &View<'_>, key: &EndpointSetKey) -> EndpointsOutput {
    if key.namespace.is_empty() {
        return of_name(view, key);
    }
    let service = NamespacedName { namespace: key.namespace.clone(), name: key.service.clone() };
    // Names of ports contain a letter or are empty: a number belongs to a Service without
    // endpoints.
    if key.port.parse::<u16>().is_ok()
        && let Some(service) = view.service(&service)
        && let Some(name) = &service.external_name
    {
        return of_external(view, key, service, name);
    }
    let slices = view.slices_of(&service);
    let served: Vec<(&EndpointSlice, Vec<u16>)> =
        slices.iter().map(|slice| (&***slice, ports::of(view, &service, &key.port, slice))).collect();
    let mut endpoints = gather(&served, |endpoint| endpoint.ready);
    if endpoints.is_empty() {
        endpoints = gather(&served, |endpoint| endpoint.serving && endpoint.terminating);
    } else {
        topology::retain_near(view, &mut endpoints);
    }
    let mut problems: Vec<Problem> = slices.iter().flat_map(|slice| refused(slice)).collect();
    problems.sort();
    let endpoints =
        endpoints.into_iter().map(|(address, facts)| Endpoint { address, zone: facts.zone }).collect();
    (Arc::new(EndpointSet { key: key.clone(), endpoints }), problems, None)
}

/// Returns the endpoints of a target that is not a Service: an address, or the addresses of a name.
fn of_name(view: &View<'_>, key: &EndpointSetKey) -> EndpointsOutput {
    if let Ok(address) = key.service.parse() {
        return (set(key, &[address]), Vec::new(), None);
    }
    let (addresses, fault) = resolved(view, &key.service);
    let problem = fault.map(|fault| {
        let stays = match addresses.is_empty() {
            true => {
                "requests that are to be authorised by it are answered with 500, and none are copied to it"
            }
            false => STAYS,
        };
        let object = ObjectRef::new("Name", "", &key.service);
        let message = format!("cannot be resolved: {fault}; {stays}");
        let remedy = "correct the URL that has this host, or the DNS";
        warning(Code::NameNotResolved, &object, "DNS", message, remedy)
    });
    (set(key, &addresses), problem.into_iter().collect(), Some(key.service.clone()))
}

/// Returns the endpoints of an ExternalName Service: an address, or the addresses of the name.
fn of_external(view: &View<'_>, key: &EndpointSetKey, service: &Service, name: &str) -> EndpointsOutput {
    let object = ObjectRef { kind: "Service".into(), name: service.name.clone() };
    let name = match external_name::read(name) {
        Ok(External::Name(name)) => name,
        Ok(External::Address(address)) => return (set(key, &[address]), Vec::new(), None),
        // The node that refers to the Service reports the problem.
        Err(_) => return (set(key, &[]), Vec::new(), None),
    };
    let (addresses, fault) = resolved(view, &name);
    let mut problems = Vec::new();
    if let Some(fault) = fault {
        let stays = if addresses.is_empty() { "its requests get 503" } else { STAYS };
        let message = format!("{name} cannot be resolved: {fault}; {stays}");
        let remedy = "correct the name, or the DNS";
        problems.push(warning(Code::NameNotResolved, &object, EXTERNAL_NAME, message, remedy));
    }
    let refuses = view.options.refuse_local_names;
    let (refused, used): (Vec<IpAddr>, Vec<IpAddr>) =
        addresses.iter().partition(|address| refuses && is_local(**address));
    if let Some(address) = refused.first() {
        let message =
            format!("{name} resolves to {address}, which means the machine that asks; it is not used");
        let remedy = "name a host that is not the gateway's own machine or its metadata service";
        problems.push(error(Code::ServiceExternal, &object, EXTERNAL_NAME, message, remedy));
    }
    (set(key, &used), problems, Some(name))
}

const EXTERNAL_NAME: &str = "spec.externalName";
const STAYS: &str = "the addresses that it had stay in use for a while";

/// Returns the addresses of a name, and the error of the last look-up.
fn resolved<'v>(view: &View<'v>, name: &Arc<str>) -> (Cow<'v, [IpAddr]>, Option<&'v Arc<str>>) {
    // The name may not have been resolved yet.
    let Some(Resolved { addresses, fault }) = view.resolved(name) else { return (Cow::default(), None) };
    let used = match addresses.iter().any(IpAddr::is_ipv6) && view.ipv4_names() {
        true => addresses.iter().copied().filter(IpAddr::is_ipv4).collect(),
        false => Cow::Borrowed(&**addresses),
    };
    (used, fault.as_ref())
}

fn set(key: &EndpointSetKey, addresses: &[IpAddr]) -> Arc<EndpointSet> {
    let port = key.port.parse().unwrap_or(0);
    let endpoint = |address: &IpAddr| Endpoint { address: SocketAddr::new(*address, port), zone: None };
    Arc::new(EndpointSet { key: key.clone(), endpoints: addresses.iter().map(endpoint).collect() })
}

/// Returns the usable endpoints of slices, each with the ports that are served.
fn gather(
    slices: &[(&EndpointSlice, Vec<u16>)],
    usable: impl Fn(&SliceEndpoint) -> bool,
) -> BTreeMap<SocketAddr, AddressFacts> {
    let mut all: BTreeMap<SocketAddr, AddressFacts> = BTreeMap::new();
    for (slice, ports) in slices {
        for endpoint in slice.endpoints.iter().filter(|endpoint| usable(endpoint)) {
            for port in ports {
                let facts = all.entry(SocketAddr::new(endpoint.address, *port)).or_default();
                // If two slices differ, the zone that sorts last applies, regardless of their
                // order.
                if facts.zone < endpoint.zone {
                    facts.zone.clone_from(&endpoint.zone);
                }
                facts.hints.extend(endpoint.hints.clone());
            }
        }
    }
    all
}

fn refused(slice: &EndpointSlice) -> Vec<Problem> {
    let object = ObjectRef { kind: "EndpointSlice".into(), name: slice.name.clone() };
    let mut problems = Vec::new();
    if let AddressType::Other(kind) = &slice.address_type {
        problems.push(error(
            Code::AddressTypeNotServed,
            &object,
            "addressType",
            format!("{kind:?} is not served: requests go to IP addresses only"),
            "write IPv4 or IPv6 addresses",
        ));
    }
    for address in &slice.bad_addresses {
        problems.push(error(
            Code::AddressInvalid,
            &object,
            "endpoints[].addresses",
            format!("{address:?} is not an IP address, and is left out"),
            "correct the address",
        ));
    }
    problems
}
