//! Writes the status of Ingresses while this replica leads. Writes start as capacity permits, each
//! from the latest state that the watch has shown.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use sluice_config::{Code, NamespacedName, ObjectRef, Problem};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::lanes::{Lanes, Next};
use super::replicas::{Others, Replicas};
use super::source::problem_of;
use super::table::{Table, Write};
use crate::cluster::api::{self, Refused};
use crate::cluster::{DutyOptions, Findings};
use crate::problem::{Duty, warning};
use crate::store::{Address, IngressChange, IngressChanges};

/// Wait after a refusal that affects other Ingresses too.
const AGAIN: Duration = Duration::from_secs(10);
/// Wait after a refusal that affects one Ingress.
const MUCH_LATER: Duration = Duration::from_secs(60);
/// Field manager in `metadata.managedFields`.
const MANAGER: &str = "sluice";
/// Maximum number of problems of each kind that are reported at a time.
const MOST: usize = 20;

/// The writer.
pub(super) struct StatusWriter {
    pub(super) client: Client,
    pub(super) options: DutyOptions,
    pub(super) replicas: Arc<Replicas>,
    pub(super) findings: Findings,
    pub(super) leading: watch::Receiver<bool>,
    /// The published addresses at the start of this replica's leadership. `None` while it does not
    /// lead.
    pub(super) published: watch::Sender<Option<Arc<[Address]>>>,
    pub(super) addresses: watch::Receiver<Arc<[Address]>>,
    pub(super) state: State,
}

/// The state of the writer.
#[derive(Default)]
pub(super) struct State {
    table: Table,
    lanes: Lanes,
    /// Whether the initial list of Ingresses is complete.
    known: bool,
    /// The last refusal, by Ingress.
    refused: BTreeMap<NamespacedName, Refused>,
    /// Number of writes since the last log line.
    count: usize,
}

/// The result of a write.
enum Outcome {
    /// Written. The object now has this resource version.
    Written(Option<u64>),
    /// The Ingress was deleted, possibly replaced by another.
    Gone,
    Refused(Refused),
}

impl StatusWriter {
    /// Runs until it is stopped, then clears the status if required. If it ends because its inputs
    /// are dropped, it clears nothing.
    pub(super) async fn run(
        mut self,
        mut seen: mpsc::UnboundedReceiver<IngressChanges>,
        mut stop: oneshot::Receiver<()>,
    ) {
        let mut under_way = FuturesUnordered::new();
        let mut contested = 0;
        loop {
            while let Ok(changes) = seen.try_recv() {
                self.state.take(changes);
            }
            if contested != self.state.table.contested().len() {
                contested = self.state.table.contested().len();
                self.findings.set(Duty::Status, self.state.problems());
            }
            let mut later = None;
            if self.leads() {
                if self.published.borrow().is_none() {
                    self.published.send_replace(Some(self.state.table.published().into()));
                }
                later = self.state.fill(Instant::now());
                while let Some(write) = self.state.next(Instant::now()) {
                    under_way.push(patch(self.client.clone(), write));
                }
            }
            if under_way.is_empty() {
                self.state.log_count();
            }
            let next = async {
                match later {
                    Some(later) => sleep_until(later).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = &mut stop => break,
                changed = self.leading.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    // A write that has not reached the server is cancelled.
                    under_way.clear();
                    self.state.begin_anew();
                    self.published.send_replace(None);
                }
                changed = self.addresses.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let addresses = self.addresses.borrow_and_update().to_vec();
                    self.state.table.want(addresses);
                }
                Some((write, outcome)) = under_way.next() => {
                    self.state.done(&write, outcome, Instant::now());
                    self.findings.set(Duty::Status, self.state.problems());
                }
                changes = seen.recv() => {
                    let Some(changes) = changes else { return };
                    self.state.take(changes);
                }
                () = next => {}
            }
        }
        drop(under_way);
        self.clear().await;
    }

    /// Returns whether this replica may write.
    fn leads(&self) -> bool {
        self.state.known && *self.leading.borrow()
    }

    /// Clears the addresses if no replica is left to serve them: at the end of the last replica,
    /// and only if there is a single address. With several addresses, others may remain. A status
    /// with other content belongs to another writer.
    async fn clear(mut self) {
        if !self.options.update_status_on_shutdown || !*self.leading.borrow() {
            return;
        }
        if self.state.table.wanted().len() > 1 {
            tracing::info!("the status of Ingresses stays: there is more than one address");
            return;
        }
        match self.replicas.others().await {
            Ok(Others::Some) => {
                tracing::info!("the status of Ingresses stays: there are other replicas, or one will follow");
            }
            Ok(Others::None) => self.clear_all().await,
            Ok(Others::Unknown) => {
                tracing::warn!(
                    "the status of Ingresses stays: the Pod of this replica is gone or its owner is of another kind, \
                     so others may follow"
                );
            }
            Err(error) => {
                tracing::warn!(%error, "the status of Ingresses stays: cannot see whether there are other replicas")
            }
        }
    }

    async fn clear_all(&mut self) {
        let (mut lanes, mut under_way) = (Lanes::default(), FuturesUnordered::new());
        lanes.extend(self.state.table.ours());
        let (mut count, mut last) = (0, None);
        loop {
            while let Some(next) = lanes.next(Instant::now()) {
                match next {
                    Next::Send(write) => under_way.push(patch(self.client.clone(), write)),
                    // Too late for another attempt.
                    Next::Postpone(..) => {}
                }
            }
            let Some((write, outcome)) = under_way.next().await else { break };
            match outcome {
                Outcome::Written(_) | Outcome::Gone => {
                    count += 1;
                    lanes.done(&write.name.namespace, None, Instant::now());
                }
                Outcome::Refused(refused) => {
                    let others = concerns_others(&refused).then(|| refused.retry_after());
                    lanes.done(&write.name.namespace, others, Instant::now());
                    last = Some(refused);
                }
            }
        }
        match last {
            None => {
                tracing::info!(
                    ingresses = count,
                    "cleared the status of Ingresses: this was the last replica"
                )
            }
            Some(error) => tracing::warn!(%error, "cannot clear the status of all Ingresses"),
        }
    }
}

impl State {
    fn take(&mut self, changes: IngressChanges) {
        self.known |= changes.first;
        let now = Instant::now();
        for change in changes.changes {
            if let IngressChange::Gone(name) = &change {
                self.refused.remove(name);
            }
            self.table.take(change, now);
        }
    }

    /// Queues the writes that are due, once no earlier one waits. Returns the time at which more
    /// become due.
    fn fill(&mut self, now: Instant) -> Option<Instant> {
        if !self.lanes.is_empty() {
            return None;
        }
        let (due, later) = self.table.due(now);
        self.lanes.extend(due);
        later
    }

    /// Returns the next write, if there is capacity for one.
    fn next(&mut self, now: Instant) -> Option<Write> {
        while let Some(next) = self.lanes.next(now) {
            match next {
                Next::Postpone(name, until) => self.table.postpone(&name, until),
                Next::Send(write) => match self.table.begin(&write.name, now) {
                    Some(write) => return Some(write),
                    None => self.lanes.skip(&write.name.namespace),
                },
            }
        }
        None
    }

    fn done(&mut self, write: &Write, outcome: Outcome, now: Instant) {
        let (name, namespace) = (&write.name, &*write.name.namespace);
        match outcome {
            Outcome::Written(version) => {
                self.count += 1;
                self.refused.remove(name);
                self.lanes.done(namespace, None, now);
                self.table.written(write, version, now);
            }
            Outcome::Gone => {
                self.refused.remove(name);
                self.lanes.done(namespace, None, now);
                self.table.gone(write, now + MUCH_LATER);
            }
            Outcome::Refused(refused) => {
                tracing::debug!(ingress = %name, error = %refused, "the status was not written");
                let others = concerns_others(&refused);
                self.lanes.done(namespace, others.then(|| refused.retry_after()), now);
                let until = match others {
                    true => self.lanes.closed_until(namespace).unwrap_or(now + AGAIN),
                    false => now + MUCH_LATER,
                };
                self.table.postpone(name, until);
                self.refused.insert(name.clone(), refused);
            }
        }
    }

    /// Returns the current problems.
    fn problems(&self) -> Vec<Problem> {
        let mut problems: Vec<Problem> = self.table.contested().take(MOST).map(contest_problem).collect();
        let mut refused: Vec<Problem> = self.refused.values().take(MOST).filter_map(problem_of).collect();
        refused.dedup();
        problems.append(&mut refused);
        problems
    }

    /// Resets the state after the leadership has started or ended.
    fn begin_anew(&mut self) {
        self.lanes.clear();
        // The addresses of an earlier term may be outdated.
        self.table.want(Vec::new());
        self.table.look_at_all();
    }

    fn log_count(&mut self) {
        if self.count > 0 {
            let (ingresses, addresses) = (self.count, shown(self.table.wanted()));
            tracing::info!(ingresses, addresses, "wrote the status of Ingresses");
            self.count = 0;
        }
    }
}

/// Executes a write.
async fn patch(client: Client, write: Write) -> (Write, Outcome) {
    let api = Api::<Ingress>::namespaced(client, &write.name.namespace);
    let how = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let patch = Patch::Merge(patch_of(&write));
    let outcome = match api::found(api.patch_status(&write.name.name, &how, &patch)).await {
        Ok(Some(ingress)) => {
            Outcome::Written(ingress.resource_version().and_then(|version| version.parse().ok()))
        }
        Ok(None) | Err(Refused::Conflict) => Outcome::Gone,
        Err(refused) => Outcome::Refused(refused),
    };
    (write, outcome)
}

/// Returns whether other Ingresses of the namespace would be refused too: the right is missing, or
/// the API server does not respond. A denial by a webhook or policy affects one object.
fn concerns_others(refused: &Refused) -> bool {
    match refused {
        Refused::Forbidden(message) => message.contains("cannot patch resource"),
        Refused::Away { .. } => true,
        Refused::NotFound | Refused::Conflict | Refused::Invalid(_) | Refused::Quota(_) => false,
    }
}

/// Returns the patch: only the list of addresses, and only for the object that was seen.
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

/// The message has no count, because problems with different messages are different Events.
fn contest_problem(name: &NamespacedName) -> Problem {
    warning(
        Code::StatusContested,
        &ObjectRef { kind: "Ingress".into(), name: name.clone() },
        "status.loadBalancer.ingress",
        "each time that it was written it became another soon after: another controller writes it too",
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
        assert!(concerns_others(&Refused::silent(Duration::ZERO)));
        let denied = r#"admission webhook "policy.example" denied the request: not this one"#;
        assert!(!concerns_others(&Refused::Forbidden(denied.into())));
        assert!(!concerns_others(&Refused::Invalid("spec".into())));
    }
}
