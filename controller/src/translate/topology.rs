//! Zone-aware routing: restricts the ready endpoints of a Service to those that EndpointSlice hints
//! assign to the location of the gateway.
//!
//! The rules are those of kube-proxy, so that a Service has the same meaning for both: hints apply
//! only if every ready endpoint has some and at least one of them is for this location; otherwise
//! all endpoints are used. Hints for nodes precede hints for zones. The setting of the Service
//! (`spec.trafficDistribution`, or the annotation for the topology mode) is not read: Kubernetes
//! adds and removes hints accordingly.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use sluice_config::{Code, ObjectRef, Problem};

use super::view::View;
use crate::problem::warning;
use crate::store::Hints;

/// What EndpointSlices say of an address.
#[derive(Default)]
pub(super) struct AddressFacts {
    /// Its zone.
    pub(super) zone: Option<Arc<str>>,
    /// Zone and node hints; empty if no slice has any.
    pub(super) hints: Vec<Arc<Hints>>,
}

const FLAG: &str = "--enable-topology-aware-routing";

/// Restricts ready endpoints to near ones, if there are any.
pub(super) fn retain_near(view: &View<'_>, endpoints: &mut BTreeMap<SocketAddr, AddressFacts>) {
    // Without the flag nothing is read.
    let Some(node) = view.options.own_node() else { return };
    let zone = view.node(&node).and_then(|node| node.zone.as_deref());
    let _ = keep(endpoints, &node.name, |hints| &hints.nodes)
        || zone.is_some_and(|zone| keep(endpoints, zone, |hints| &hints.zones));
}

/// Keeps the endpoints whose hints name `place`, if all have hints and one matches. Returns whether
/// it did.
fn keep(
    endpoints: &mut BTreeMap<SocketAddr, AddressFacts>,
    place: &str,
    named: impl Fn(&Hints) -> &[Arc<str>],
) -> bool {
    let is_hinted = |facts: &AddressFacts| facts.hints.iter().any(|hints| !named(hints).is_empty());
    let is_near = |facts: &AddressFacts| {
        facts.hints.iter().any(|hints| named(hints).iter().any(|name| **name == *place))
    };
    let applies = endpoints.values().all(is_hinted) && endpoints.values().any(is_near);
    if applies {
        endpoints.retain(|_, facts| is_near(facts));
    }
    applies
}

/// Returns why zone hints cannot be applied although they are enabled.
pub(super) fn problem(view: &View<'_>) -> Option<Problem> {
    if !view.options.enable_topology_aware_routing {
        return None;
    }
    let unknown = |message: String, remedy: &str| {
        let message = format!("{message}; endpoints of all zones are used");
        Some(warning(Code::ZoneUnknown, &ObjectRef::new("Flag", "", FLAG), "", message, remedy))
    };
    let Some(name) = view.options.own_node() else {
        return unknown(
            "the node of this gateway is unknown: the environment variable NODE_NAME is not set".into(),
            "set it in the Pod: {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}, as the chart does with \
             controller.enableTopologyAwareRouting",
        );
    };
    match view.node(&name) {
        None => unknown(
            format!("Node {} does not exist or cannot be read", name.name),
            "give the ServiceAccount a ClusterRole with the rule {apiGroups: [\"\"], resources: [\"nodes\"], verbs: [\"list\", \
             \"watch\"]}, and check that NODE_NAME is the name of a Node; it is picked up without a restart",
        ),
        Some(node) if node.zone.is_none() => unknown(
            format!("Node {} has no label topology.kubernetes.io/zone", name.name),
            "label it, which cloud providers do automatically; it is picked up without a restart",
        ),
        Some(_) => None,
    }
}
