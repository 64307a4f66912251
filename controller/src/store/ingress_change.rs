//! Changes of Ingresses, for the writers of their status and Events.

use std::sync::Arc;

use sluice_config::{NamespacedName, Uid};

use super::ingress::{Address, Ingress};

/// Changes of Ingresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IngressChanges {
    /// Whether the changes are the initial list.
    pub first: bool,
    /// Changes, in order.
    pub changes: Vec<IngressChange>,
}

/// A change of one Ingress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IngressChange {
    /// The Ingress was read, or is new or changed.
    Seen {
        /// Name.
        name: NamespacedName,
        /// Uid.
        uid: Option<Uid>,
        /// Addresses in its status, sorted.
        addresses: Arc<[Address]>,
        /// Resource version with these addresses; `None` if unknown.
        version: Option<u64>,
        /// Whether the Ingress has a class of this controller and more than its status changed.
        edited: bool,
    },
    /// The Ingress was deleted.
    Gone(NamespacedName),
    /// The Ingress is served from now on, or no longer.
    Served(NamespacedName, bool),
}

impl IngressChange {
    /// Creates the change of an Ingress that was read, or is new or changed.
    pub(crate) fn seen(ingress: &Ingress, edited: bool) -> Self {
        Self::Seen {
            name: ingress.name.clone(),
            uid: ingress.identity.uid.clone(),
            addresses: ingress.published.addresses.iter().cloned().collect(),
            version: ingress.published.version,
            edited,
        }
    }
}
