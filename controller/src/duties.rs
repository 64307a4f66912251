//! Duties of a controller in addition to serving: the status of Ingresses, Events, and leader
//! election.
//!
//! The duties run on their own thread with their own API client, so they cannot delay the data
//! plane. They run in Pods only (`POD_NAME` and `POD_NAMESPACE` are set): a gateway outside a
//! cluster, or one that serves a folder, writes nothing. Failures are reported as problems and end
//! nothing.

mod rights;

use std::collections::BTreeSet;
use std::pin::pin;
use std::thread;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use sluice_config::{Code, ObjectRef, Problem};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::cluster::{DutyOptions, Findings, OwnPod};
use crate::events::{EventWriter, News};
use crate::input::Input;
use crate::leader::{Candidate, Election};
use crate::options::Options;
use crate::panic_guard::PanicGuard;
use crate::problem::{Duty, ProblemChanges, error};
use crate::source::kube::{AccessError, ApiAccess, client};
use crate::status;
use crate::store::{IngressChange, IngressChanges};

/// Time limit for the duties at shutdown: clearing the status and releasing the Lease.
pub const END: Duration = Duration::from_secs(8);

/// Namespaces of the objects that the duties write status and Events for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DutyScope {
    /// The watched namespace; `None` for all.
    pub namespace: Option<String>,
    /// Namespaces of objects named by flags.
    pub further: BTreeSet<String>,
}

impl DutyScope {
    /// Returns the scope that `options` define.
    pub fn of(options: &Options) -> Self {
        let named = [&options.configmap, &options.default_backend_service, &options.default_ssl_certificate];
        let further = named.into_iter().flatten().map(|name| name.namespace.to_string()).collect();
        Self { namespace: options.watch_namespace.clone(), further }
    }
}

/// The running duties. They end when this is dropped, or in order with [`Duties::end`].
#[derive(Debug)]
pub struct Duties {
    news: DutyNews,
    leading: watch::Receiver<bool>,
    stop: Option<oneshot::Sender<()>>,
    ended: Option<oneshot::Receiver<()>>,
}

/// Channels from the control plane to the duties. A duty that is disabled has none.
#[derive(Clone, Debug, Default)]
pub struct DutyNews {
    status: Option<mpsc::UnboundedSender<IngressChanges>>,
    events: Option<mpsc::UnboundedSender<News>>,
}

impl Duties {
    /// Starts the duties. Their problems go to `inputs`.
    ///
    /// # Errors
    /// Returns an error if `access` is invalid or the thread cannot be started.
    pub async fn start(
        access: ApiAccess,
        options: DutyOptions,
        pod: OwnPod,
        scope: DutyScope,
        inputs: mpsc::WeakSender<Input>,
    ) -> Result<Self, AccessError> {
        let (status, seen) = mpsc::unbounded_channel();
        let (events, news) = mpsc::unbounded_channel();
        // Disabled duties get no changes.
        let status = options.update_status.then_some(status);
        let (stop, stopped) = oneshot::channel();
        let (over, ended) = oneshot::channel();
        let (started, outcome) = oneshot::channel();
        let (lead, leading) = watch::channel(options.disable_leader_election);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let work = async move {
            let client = access.config().await.and_then(|config| client::of_duties(&config));
            let client = match client {
                Ok(client) => client,
                Err(error) => return drop(started.send(Err(error))),
            };
            let _ = started.send(Ok(()));
            let at_work = AtWork { client, options, pod, scope, findings: Findings::new(inputs) };
            at_work.run(lead, seen, news, stopped).await;
            let _ = over.send(());
        };
        thread::Builder::new().name("duties".into()).spawn(move || runtime.block_on(work))?;
        match outcome.await {
            Ok(outcome) => outcome?,
            Err(_) => return Err(std::io::Error::other("the thread of the controller's duties ended").into()),
        }
        let news = DutyNews { status, events: Some(events) };
        Ok(Self { news, leading, stop: Some(stop), ended: Some(ended) })
    }

    /// Returns the channels for changes.
    pub fn news(&self) -> DutyNews {
        self.news.clone()
    }

    /// Returns whether this replica is the leader, as a watch channel.
    pub fn leading(&self) -> watch::Receiver<bool> {
        self.leading.clone()
    }

    /// Ends the duties in order: clears the status if this was the last replica, then releases the
    /// Lease.
    pub async fn end(mut self) {
        let (Some(stop), Some(ended)) = (self.stop.take(), self.ended.take()) else { return };
        let _ = stop.send(());
        if tokio::time::timeout(END, ended).await.is_err() {
            tracing::warn!(limit = ?END, "the Kubernetes API does not answer: the Lease and the status stay as they are");
        }
    }
}

impl DutyNews {
    /// Sends changes of Ingresses.
    pub fn ingresses(&self, changes: IngressChanges) {
        // Sending fails during shutdown only.
        if let Some(events) = &self.events {
            let edited = changes.changes.iter().filter_map(|change| match change {
                IngressChange::Seen { name, uid, edited: true, .. } => Some((name.clone(), uid.clone())),
                _ => None,
            });
            // At the start every Ingress is new to this process, but not edited.
            let edited: Vec<_> = if changes.first { Vec::new() } else { edited.collect() };
            if !edited.is_empty() {
                let _ = events.send(News::Edited(edited));
            }
        }
        if let Some(status) = &self.status {
            let _ = status.send(changes);
        }
    }

    /// Sends changes of the problems.
    pub fn problems(&self, changes: &ProblemChanges) {
        if let Some(events) = &self.events {
            let _ = events.send(News::Problems(changes.clone()));
        }
    }
}

/// State of the duties' thread.
struct AtWork {
    client: Client,
    options: DutyOptions,
    pod: OwnPod,
    scope: DutyScope,
    findings: Findings,
}

impl AtWork {
    async fn run(
        self,
        lead: watch::Sender<bool>,
        seen: mpsc::UnboundedReceiver<IngressChanges>,
        news: mpsc::UnboundedReceiver<News>,
        stopped: oneshot::Receiver<()>,
    ) {
        let Self { client, options, pod, scope, findings } = self;
        let (stop_status, status_stopped) = oneshot::channel();
        let (stop_election, election_stopped) = oneshot::channel();
        let guard = PanicGuard::default();
        let mut tasks = JoinSet::new();
        let needed = rights::needed(&options, &pod, &scope);
        tasks.spawn(guard.clone().around(rights::watch(client.clone(), needed, findings.clone())));
        let events = EventWriter::new(&client, &options, &pod, &findings, lead.subscribe());
        tasks.spawn(guard.clone().around(events.run(news)));
        let status = options.update_status.then(|| {
            let (client, options, pod) = (client.clone(), options.clone(), pod.clone());
            let (findings, leading) = (findings.clone(), lead.subscribe());
            let work = status::run(client, options, pod, findings, leading, seen, status_stopped);
            tokio::spawn(guard.clone().around(work))
        });
        let leases = Api::<Lease>::namespaced(client.clone(), &pod.namespace);
        let election = Election::new(pod.name.clone(), options.election_ttl);
        let candidate =
            Candidate::new(leases, options.election_id.clone(), election, lead.clone(), findings.clone());
        let election = match options.disable_leader_election {
            true => None,
            false => Some(tokio::spawn(guard.clone().around(candidate.run(election_stopped)))),
        };
        let mut stopped = pin!(stopped);
        tokio::select! {
            // If the sender is gone, the program ends at once.
            stop = &mut stopped => if stop.is_err() { return },
            () = guard.panicked() => {
                // The Lease expires, and another replica takes over.
                status.iter().chain(&election).for_each(JoinHandle::abort);
                tasks.abort_all();
                lead.send_replace(false);
                findings.set(Duty::Election, vec![dead()]);
                let _ = stopped.await;
                return;
            }
        }
        // The status first: only a leader writes it.
        let _ = stop_status.send(());
        if let Some(status) = status {
            let _ = status.await;
        }
        let _ = stop_election.send(());
        if let Some(election) = election {
            let _ = election.await;
        }
    }
}

/// Returns the problem for a panicked task. The gateway keeps serving, but this replica writes
/// nothing more.
fn dead() -> Problem {
    error(
        Code::DutyFailed,
        &ObjectRef::new("KubernetesApi", "", "duties"),
        "",
        "a task has panicked, so this replica writes no status and no Events and does not lead any more",
        "report the panic, which is in the log; delete the Pod to have it write again",
    )
}

#[cfg(test)]
mod tests;
