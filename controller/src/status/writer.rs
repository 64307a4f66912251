//! Writes the status of Ingresses while this replica leads.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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
/// Until what was refused for a reason that concerns others too is written again.
const AGAIN: Duration = Duration::from_secs(10);
/// The same for a reason of its own.
const MUCH_LATER: Duration = Duration::from_secs(60);
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

/// What became of a write.
enum Outcome {
    Written,
    /// Its Ingress has gone, or became another.
    Gone,
    /// It was not tried.
    Left,
    Refused(Refused),
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

    /// Carries writes out. Gives how many were, and the last refusal. A right is missing for a namespace or for all:
    /// after a refusal nothing more is written there, and all of it is due again a little later.
    async fn patch(&mut self, writes: Vec<Write>) -> (usize, Option<Refused>) {
        let how = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let closed: Mutex<HashSet<Arc<str>>> = Mutex::default();
        let closed = || closed.lock().unwrap_or_else(PoisonError::into_inner);
        let (this, closed, how) = (&*self, &closed, &how);
        let one = async move |write: Write| {
            let namespace = &write.name.namespace;
            // Leadership may end between two writes.
            if !*this.leading.borrow() || closed().contains(namespace) {
                return (write.name, Outcome::Left);
            }
            let api = Api::<Ingress>::namespaced(this.client.clone(), namespace);
            let patch = Patch::Merge(patch_of(&write));
            let outcome = match api::found(api.patch_status(&write.name.name, how, &patch)).await {
                Ok(Some(_)) => Outcome::Written,
                // One that was deleted and made anew is seen again.
                Ok(None) | Err(Refused::Conflict) => Outcome::Gone,
                Err(error) => {
                    tracing::debug!(ingress = %write.name, %error, "the status was not written");
                    if concerns_others(&error) {
                        closed().insert(namespace.clone());
                    }
                    Outcome::Refused(error)
                }
            };
            (write.name, outcome)
        };
        let outcomes: Vec<(NamespacedName, Outcome)> =
            iter(writes).map(one).buffer_unordered(AT_A_TIME).collect().await;
        let (mut count, mut last, now) = (0, None, Instant::now());
        for (name, outcome) in outcomes {
            match outcome {
                Outcome::Written => count += 1,
                Outcome::Gone => {}
                Outcome::Left => self.table.put_back(&name, now + AGAIN),
                Outcome::Refused(refused) => {
                    let wait = if concerns_others(&refused) { AGAIN } else { MUCH_LATER };
                    self.table.put_back(&name, now + wait);
                    last = Some(refused);
                }
            }
        }
        (count, last)
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
                let ours = self.table.ours();
                let (count, refused) = self.patch(ours).await;
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

/// Whether other Ingresses of the namespace would be refused too: the right is missing, or nobody answers. What a webhook or a
/// policy denies is one object.
fn concerns_others(refused: &Refused) -> bool {
    match refused {
        Refused::Forbidden(message) => message.contains("cannot patch resource"),
        Refused::Away(_) => true,
        Refused::NotFound | Refused::Conflict | Refused::Invalid(_) => false,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_ingress_that_is_denied_does_not_hold_up_its_namespace() {
        let right = r#"ingresses.networking.k8s.io "web" is forbidden: User "system:serviceaccount:a:b" cannot patch resource "ingresses/status" in API group "networking.k8s.io" in the namespace "shop""#;
        assert!(concerns_others(&Refused::Forbidden(right.into())));
        assert!(concerns_others(&Refused::Away("timeout".into())));
        let denied = r#"admission webhook "policy.example" denied the request: not this one"#;
        assert!(!concerns_others(&Refused::Forbidden(denied.into())));
        assert!(!concerns_others(&Refused::Invalid("spec".into())));
    }
}
