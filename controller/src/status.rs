//! The addresses in `status.loadBalancer.ingress` of Ingresses: what DNS tools, dashboards and
//! `kubectl get ingress` read.
//!
//! Which they are comes from flags, a Service or the nodes of our Pods (`addresses`, `nodes`,
//! `source`); which Ingresses have others, or none, is known from the watch that serves them
//! (`table`), so that nothing is read to find out and only differences are written. Writing is the
//! leader's alone (`writer`), and no namespace delays another (`lanes`).
//!
//! An Ingress of ours that is rejected is left as it is, and so is one that stops being ours, as in
//! ingress-nginx. Where no address is known nothing is written: an empty list would take names out
//! of DNS, which only the end of the last replica does.

mod addresses;
mod lanes;
mod nodes;
mod replicas;
mod selector;
mod source;
mod table;
mod writer;

use std::sync::Arc;

use kube::Client;
use sluice_config::{NamespacedName, Uid};
use tokio::sync::{mpsc, oneshot, watch};

use crate::duties::{DutyOptions, Findings, OwnPod};
use crate::store::{Address, Ingress};
use replicas::Replicas;
use source::AddressSource;
use writer::StatusWriter;

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

/// Updates the status of Ingresses while this replica leads, until `stop`. Then clears it if this
/// was the last replica.
pub(crate) async fn run(
    client: Client,
    options: DutyOptions,
    pod: OwnPod,
    findings: Findings,
    leading: watch::Receiver<bool>,
    seen: mpsc::UnboundedReceiver<IngressChanges>,
    stop: oneshot::Receiver<()>,
) {
    let (publish, published) = watch::channel(None);
    let (address, addresses) = watch::channel(Arc::default());
    let replicas = Arc::new(Replicas::new(client.clone(), pod));
    let source = AddressSource {
        client: client.clone(),
        options: options.clone(),
        replicas: replicas.clone(),
        findings: findings.clone(),
        published,
        addresses: address,
    };
    let writer = StatusWriter {
        client,
        options,
        replicas,
        findings,
        leading,
        published: publish,
        addresses,
        state: Default::default(),
    };
    // One task for both, so that neither continues after the other panics.
    tokio::select! {
        () = writer.run(seen, stop) => {}
        () = source.run() => {}
    }
}
