//! Updates the addresses in `status.loadBalancer.ingress` of Ingresses, which DNS tools, dashboards
//! and `kubectl get ingress` read.
//!
//! The addresses come from flags, a Service or the nodes of the gateway's Pods (`addresses`,
//! `nodes`, `source`). The watch that serves Ingresses also shows which of them have other
//! addresses or none (`table`), so nothing extra is read and only differences are written. Only the
//! leader writes (`writer`), and no namespace delays another (`lanes`).
//!
//! A rejected Ingress keeps its status, and so does one that no longer belongs to this class, as in
//! ingress-nginx. While no address is known, nothing is written: an empty list would remove names
//! from DNS. Only the last replica writes one, at its end.

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
