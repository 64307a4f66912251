//! The endpoints of a Service port, from its EndpointSlices. Nothing else is read, so that a Pod that comes or
//! goes costs this one node, however many Ingresses share the Service.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sluice_config::{Code, Endpoint, EndpointSet, EndpointSetKey, NamespacedName, ObjectRef, Problem};

use super::view::View;
use crate::names::Resolved;
use crate::problem::{error, warning};
use crate::store::{AddressType, EndpointSlice, SliceEndpoint};

/// Computes the node. Endpoints that are ready count; if there is none, those that are being ended but still
/// serve (KEP-1669). An address that stands in several slices counts once.
pub(crate) fn compute(view: &View<'_>, key: &EndpointSetKey) -> (Arc<EndpointSet>, Vec<Problem>) {
    if key.namespace.is_empty() {
        return of_name(view, key);
    }
    let service = NamespacedName { namespace: key.namespace.clone(), name: key.service.clone() };
    let slices = view.slices_of(&service);
    let mut endpoints = gather(&slices, key, |endpoint| endpoint.ready);
    if endpoints.is_empty() {
        endpoints = gather(&slices, key, |endpoint| endpoint.serving && endpoint.terminating);
    }
    let mut problems: Vec<Problem> = slices.iter().flat_map(|slice| refused(slice)).collect();
    problems.sort();
    let endpoints = endpoints.into_iter().map(|(address, zone)| Endpoint { address, zone }).collect();
    (Arc::new(EndpointSet { key: key.clone(), endpoints }), problems)
}

/// The endpoints of what is no Service: an address, or the addresses of a name.
fn of_name(view: &View<'_>, key: &EndpointSetKey) -> (Arc<EndpointSet>, Vec<Problem>) {
    let (addresses, problems) = match key.service.parse() {
        Ok(address) => (vec![address], Vec::new()),
        Err(_) => match view.resolved(&key.service) {
            Some(Resolved { addresses, fault: None }) => (addresses.clone(), Vec::new()),
            Some(Resolved { addresses, fault: Some(fault) }) => {
                let stays = match addresses.is_empty() {
                    true => {
                        "requests that are to be authorised by it are answered with 500, and none are copied to it"
                    }
                    false => "the addresses that it had stay in use",
                };
                let object = ObjectRef::new("Name", "", &key.service);
                let message = format!("cannot be resolved: {fault}; {stays}");
                let remedy = "correct the URL that has this host, or the DNS";
                (addresses.clone(), vec![warning(Code::NameNotResolved, &object, "DNS", message, remedy)])
            }
            // Nobody has looked it up yet.
            None => (Vec::new(), Vec::new()),
        },
    };
    let port = key.port.parse().unwrap_or(0);
    let endpoint = |address: IpAddr| Endpoint { address: SocketAddr::new(address, port), zone: None };
    let endpoints = addresses.into_iter().map(endpoint).collect();
    (Arc::new(EndpointSet { key: key.clone(), endpoints }), problems)
}

fn gather(
    slices: &[&Arc<EndpointSlice>],
    key: &EndpointSetKey,
    usable: impl Fn(&SliceEndpoint) -> bool,
) -> BTreeMap<SocketAddr, Option<Arc<str>>> {
    let mut found: BTreeMap<SocketAddr, Option<Arc<str>>> = BTreeMap::new();
    for slice in slices {
        let Some(port) = port(slice, &key.port) else { continue };
        for endpoint in slice.endpoints.iter().filter(|endpoint| usable(endpoint)) {
            let zone = found.entry(SocketAddr::new(endpoint.address, port)).or_default();
            // Of two slices that differ, the zone that sorts last counts, whatever their order.
            if *zone < endpoint.zone {
                zone.clone_from(&endpoint.zone);
            }
        }
    }
    found
}

/// Slices know a Service's port by its name. The only, unnamed port of a Service also takes the only port of
/// a slice, whatever its name, for slices made by hand.
fn port(slice: &EndpointSlice, name: &str) -> Option<u16> {
    let named = slice.ports.iter().find(|port| *port.name == *name);
    let only = slice.ports.first().filter(|_| name.is_empty() && slice.ports.len() == 1);
    named.or(only).map(|port| port.number)
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
            format!("{address:?} is no IP address, and is left out"),
            "correct the address",
        ));
    }
    problems
}
