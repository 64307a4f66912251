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
use tokio::sync::{mpsc, oneshot, watch};

use crate::cluster::{DutyOptions, Findings, OwnPod};
use crate::store::IngressChanges;
use replicas::Replicas;
use source::AddressSource;
use writer::StatusWriter;

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
