//! `v1` Node, pruned to the zone that it is in. Nodes report their state all the time; of that nothing is kept, so
//! that a report changes nothing here.

use k8s_openapi::api::core::v1 as core;
use sluice_config::NamespacedName;
use std::sync::Arc;

use super::identity::Identity;

/// The label that says so, well known in Kubernetes.
const ZONE: &str = "topology.kubernetes.io/zone";

/// What translation reads of a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name; the namespace is empty.
    pub name: NamespacedName,
    /// Which of all objects of this name it is.
    pub identity: Identity,
    /// Its zone, if a label says.
    pub zone: Option<Arc<str>>,
}

impl Node {
    pub(super) fn pruned(name: NamespacedName, object: core::Node) -> Self {
        let identity = Identity::of(&object.metadata);
        let zone = object.metadata.labels.unwrap_or_default().remove(ZONE);
        Self { name, identity, zone: zone.filter(|zone| !zone.is_empty()).map(Arc::from) }
    }
}
