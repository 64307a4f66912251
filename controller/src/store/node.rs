//! `v1` Node, pruned to its zone. Nodes update their status constantly; none of that is kept, so
//! such an update changes nothing here.

use k8s_openapi::api::core::v1 as core;
use sluice_config::NamespacedName;
use std::sync::Arc;

use super::identity::ObjectIdentity;

/// The well-known label for the zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// The part of a Node that translation reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name; the namespace is empty.
    pub name: NamespacedName,
    /// Distinguishes objects that had this name at different times.
    pub identity: ObjectIdentity,
    /// The zone, if the Node has the label.
    pub zone: Option<Arc<str>>,
}

impl Node {
    pub(super) fn pruned(name: NamespacedName, object: core::Node) -> Self {
        let identity = ObjectIdentity::of(&object.metadata);
        let zone = object.metadata.labels.unwrap_or_default().remove(ZONE);
        Self { name, identity, zone: zone.filter(|zone| !zone.is_empty()).map(Arc::from) }
    }
}
