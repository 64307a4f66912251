//! The addresses in `status.loadBalancer.ingress` of Ingresses: what DNS tools, dashboards and `kubectl get ingress` read.
//!
//! Which they are comes from flags, a Service or the nodes of our Pods (`addresses`, `source`); which Ingresses have others, or
//! none, is known from the watch that serves them (`table`), so that nothing is read to find out and only differences
//! are written. Writing is the leader's alone (`writer`).
//!
//! An Ingress of ours that is rejected is left as it is, and so is one that stops being ours, as in ingress-nginx. Where no
//! address is known nothing is written: an empty list would take names out of DNS, which only the end of the last
//! replica does.

mod addresses;
mod source;
mod table;
pub(crate) mod writer;

use std::sync::Arc;

use sluice_config::{NamespacedName, Uid};

use crate::store::{Address, Ingress};

/// What has become of Ingresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IngressChanges {
    /// These are all that there were at the start.
    pub first: bool,
    /// One after the other.
    pub changes: Vec<IngressChange>,
}

/// What has become of one Ingress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IngressChange {
    /// It was read, new or changed.
    Seen {
        /// Which one.
        name: NamespacedName,
        /// Its uid.
        uid: Option<Uid>,
        /// The addresses in its status, sorted.
        addresses: Arc<[Address]>,
        /// Whether anything besides its status is new.
        edited: bool,
    },
    /// It was deleted.
    Gone(NamespacedName),
    /// It is served from now on, or not any more.
    Served(NamespacedName, bool),
}

impl IngressChange {
    pub(crate) fn seen(ingress: &Ingress, edited: bool) -> Self {
        Self::Seen {
            name: ingress.name.clone(),
            uid: ingress.identity.uid.clone(),
            addresses: ingress.published.0.iter().cloned().collect(),
            edited,
        }
    }
}
