//! Writes the status of Ingresses while this replica leads.

use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt;
use futures::stream::iter;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use sluice_config::{Code, NamespacedName, ObjectRef, Problem};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep_until;

use super::IngressChanges;
use super::source::{AddressSource, problem_of, replicas};
use super::table::{Table, Write};
use crate::duties::api::{self, Refused};
use crate::duties::{Duty, DutyOptions, Findings, OwnPod};
use crate::problem::warning;
use crate::store::Address;

/// Writes at a time.
const AT_A_TIME: usize = 10;
/// Who writes, as `metadata.managedFields` shows it.
const MANAGER: &str = "sluice";
/// Problems of Ingresses whose status others write too.
const MOST_CONTESTED: usize = 20;

/// The writer.
pub(crate) struct StatusWriter {
    client: Client,
    options: DutyOptions,
    pod: OwnPod,
    findings: Findings,
    leading: watch::Receiver<bool>,
    addresses: watch::Receiver<Arc<[Address]>>,
    table: Table,
    /// What was told last.
    told: Vec<Problem>,
}

impl StatusWriter {
    /// The writer, and beside it what looks at the addresses. To be called within a runtime.
    pub(crate) fn start(
        client: &Client,
        options: &DutyOptions,
        pod: &OwnPod,
        findings: &Findings,
        leading: watch::Receiver<bool>,
    ) -> Self {
        let (addresses, known) = watch::channel(Arc::default());
        let (client, options, pod) = (client.clone(), options.clone(), pod.clone());
        let source = AddressSource {
            client: client.clone(),
            options: options.clone(),
            pod: pod.clone(),
            findings: findings.clone(),
            leading: leading.clone(),
            addresses,
        };
        tokio::spawn(source.run());
        let (table, told) = (Table::default(), Vec::new());
        Self { client, options, pod, findings: findings.clone(), leading, addresses: known, table, told }
    }

    /// Runs until it is stopped; then clears the status, where that is to be done.
    pub(crate) async fn run(
        mut self,
        mut seen: mpsc::UnboundedReceiver<IngressChanges>,
        mut stop: oneshot::Receiver<()>,
    ) {
        let mut known = false;
        loop {
            let later = match known && *self.leading.borrow() {
                true => self.write().await,
                false => None,
            };
            let next = async {
                match later {
                    Some(later) => sleep_until(later.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = &mut stop => break,
                changed = self.leading.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    self.table.look_at_all();
                }
                changed = self.addresses.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    let addresses = self.addresses.borrow_and_update().to_vec();
                    self.table.want(addresses);
                }
                changes = seen.recv() => {
                    let Some(changes) = changes else { break };
                    known |= changes.first;
                    changes.changes.into_iter().for_each(|change| self.table.take(change));
                }
                () = next => {}
            }
        }
        self.clear().await;
    }

    /// Writes what is due. Says when there is more to write.
    async fn write(&mut self) -> Option<Instant> {
        let (due, later) = self.table.due(Instant::now());
        let (count, refused) = if due.is_empty() { (0, None) } else { self.patch(due).await };
        if count > 0 {
            tracing::info!(ingresses = count, addresses = %shown(self.table.wanted()), "wrote the status of Ingresses");
        }
        let contested = self.table.contested();
        let mut problems: Vec<Problem> = contested.iter().take(MOST_CONTESTED).map(contest).collect();
        // A refusal that stands is asked about again with the next write.
        match (&refused, count) {
            (Some(refused), _) => problems.extend(problem_of(refused)),
            (None, 0) => {
                problems.extend(self.told.iter().filter(|told| told.code != Code::StatusContested).cloned())
            }
            (None, _) => {}
        }
        if problems != self.told {
            self.told = problems.clone();
            self.findings.set(Duty::Status, problems).await;
        }
        later
    }

    /// Carries writes out. Gives how many were, and the last refusal.
    async fn patch(&self, writes: Vec<Write>) -> (usize, Option<Refused>) {
        let how = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let one = |write: Write| {
            let how = &how;
            async move {
                // Leadership may end between two writes.
                if !*self.leading.borrow() {
                    return Ok(false);
                }
                let api = Api::<Ingress>::namespaced(self.client.clone(), &write.name.namespace);
                let patch = Patch::Merge(patch_of(&write));
                let written = api::found(api.patch_status(&write.name.name, how, &patch)).await;
                if let Err(error) = &written {
                    tracing::debug!(ingress = %write.name, %error, "the status was not written");
                }
                written.map(|written| written.is_some())
            }
        };
        let outcomes: Vec<Result<bool, Refused>> =
            iter(writes).map(one).buffer_unordered(AT_A_TIME).collect().await;
        let count = outcomes.iter().filter(|outcome| matches!(outcome, Ok(true))).count();
        // One that was deleted and made anew is seen again.
        let refused =
            outcomes.into_iter().filter_map(Result::err).find(|refused| *refused != Refused::Conflict);
        (count, refused)
    }

    /// Takes the addresses out where nobody is left to answer at them: at the end of the last replica, where there is
    /// one address. With several, others may go on; and what says something else was written by somebody else.
    async fn clear(mut self) {
        if !self.options.update_status || !self.options.update_status_on_shutdown || !*self.leading.borrow() {
            return;
        }
        if self.table.wanted().len() > 1 {
            tracing::info!("the status of Ingresses stays: there is more than one address");
            return;
        }
        match replicas(&self.client, &self.pod).await {
            Ok(pods) if pods.len() > 1 => {
                tracing::info!(
                    replicas = pods.len(),
                    "the status of Ingresses stays: there are other replicas"
                );
            }
            Ok(_) => {
                let (count, refused) = self.patch(self.table.ours()).await;
                match refused {
                    None => tracing::info!(
                        ingresses = count,
                        "cleared the status of Ingresses: this was the last replica"
                    ),
                    Some(error) => tracing::warn!(%error, "cannot clear the status of all Ingresses"),
                }
                self.table = Table::default();
            }
            Err(error) => {
                tracing::warn!(%error, "the status of Ingresses stays: cannot see whether there are other replicas")
            }
        }
    }
}

/// The patch of a status: the list of addresses and nothing else, of the very object that was seen.
fn patch_of(write: &Write) -> Value {
    let of = |one: &Address| match (one.ip.is_empty(), one.hostname.is_empty()) {
        (false, false) => json!({"ip": one.ip, "hostname": one.hostname}),
        (false, true) => json!({"ip": one.ip}),
        (true, _) => json!({"hostname": one.hostname}),
    };
    let all: Vec<Value> = write.addresses.iter().map(of).collect();
    let mut patch = json!({"status": {"loadBalancer": {"ingress": all}}});
    if let Some(uid) = &write.uid {
        patch["metadata"] = json!({"uid": uid.to_string()});
    }
    patch
}

fn contest((name, writes): &(NamespacedName, u32)) -> Problem {
    warning(
        Code::StatusContested,
        &ObjectRef { kind: "Ingress".into(), name: name.clone() },
        "status.loadBalancer.ingress",
        format!("was written {writes} times and each time became another: somebody else writes it too"),
        "stop the other controller from writing it (ingress-nginx: --update-status=false), or give it another class",
    )
}

fn shown(addresses: &[Address]) -> String {
    let of = |one: &Address| if one.ip.is_empty() { one.hostname.to_string() } else { one.ip.to_string() };
    addresses.iter().map(of).collect::<Vec<_>>().join(", ")
}
