//! The addresses in `status.loadBalancer.ingress` of Ingresses: what DNS tools, dashboards and `kubectl get ingress` read.
//!
//! Which they are comes from flags, a Service or the nodes of our Pods (`addresses`, `nodes`,
//! `source`); which Ingresses have others, or none, is known from the watch that serves them
//! (`table`), so that nothing is read to find out and only differences are written. Writing is the
//! leader's alone (`writer`), and no namespace delays another (`lanes`).
//!
//! An Ingress of ours that is rejected is left as it is, and so is one that stops being ours, as in ingress-nginx. Where no
//! address is known nothing is written: an empty list would take names out of DNS, which only the end of the last
//! replica does.

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
        /// The version of the object that had them; `None` where it is not known.
        version: Option<u64>,
        /// Whether it is of a class of ours, and anything besides its status is new.
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
            addresses: ingress.published.addresses.iter().cloned().collect(),
            version: ingress.published.version,
            edited,
        }
    }
}

/// Keeps the status of Ingresses while this replica leads, until `stop`; then clears it where this
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
    // In one task, so that neither goes on where the other has panicked.
    tokio::select! {
        () = writer.run(seen, stop) => {}
        () = source.run() => {}
    }
}
