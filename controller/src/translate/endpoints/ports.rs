//! The ports of an EndpointSlice that serve a port of its Service, by the rules of ingress-nginx
//! (`getEndpointsFromSlices`).
//!
//! A slice identifies the port by its name. Without that name the Service's `targetPort` applies:
//! slices follow a change of their Service after a while, and manually created ones may have other
//! names, or no ports. A Service whose port gets a name thus keeps its endpoints.

use sluice_config::NamespacedName;

use crate::store::EndpointSlice;
use crate::translate::view::View;

/// Returns the ports of a slice for the port `name` of a Service. Reads the Service only if the
/// slice does not have exactly that port, so most edits of a Service recompute no endpoints.
pub(super) fn of(view: &View<'_>, service: &NamespacedName, name: &str, slice: &EndpointSlice) -> Vec<u16> {
    let ports = || slice.ports.iter().chain(&slice.udp_ports);
    // Names are unique among TCP and UDP ports.
    if let Some(port) = ports().find(|port| *port.name == *name)
        && (!name.is_empty() || ports().count() == 1)
    {
        return vec![port.number];
    }
    let Some((transport, port)) = view.service(service).and_then(|service| service.port_named(name)) else {
        return Vec::new();
    };
    let target = || port.target_number().into_iter().collect();
    if slice.is_unrestricted {
        return target();
    }
    let ports = slice.ports_of(transport);
    match () {
        // A port without a name is the only one of its Service.
        () if name.is_empty() => ports.iter().map(|port| port.number).collect(),
        () if ports.is_empty() => Vec::new(),
        () => target(),
    }
}
