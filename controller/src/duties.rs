//! What a controller does beside serving: writes the status of Ingresses and Events, as the leader of its replicas.
//!
//! All of it runs on one thread with a client of its own, so that nothing here can hold up what is served. It runs in Pods
//! only (`POD_NAME` and `POD_NAMESPACE` are set): a gateway on somebody's own machine, or one that serves a folder,
//! writes nothing. What goes wrong comes back as problems; no failure ends anything.

pub(crate) mod api;
mod findings;
mod rights;

use std::thread;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use sluice_config::NamespacedName;
use tokio::sync::{mpsc, oneshot, watch};

use crate::events::{EventWriter, News};
use crate::input::Input;
use crate::leader::{Candidate, Election};
use crate::problem::ProblemChanges;
use crate::source::kube::{Access, AccessError, client};
use crate::status::writer::StatusWriter;
use crate::status::{IngressChange, IngressChanges};
pub(crate) use findings::{Findings, refusal};

/// How long the duties have at the end: to clear the status, to release the Lease.
pub const END: Duration = Duration::from_secs(8);

/// Flags of the controller's duties. Names, forms and defaults are ingress-nginx's, but for the election's name.
#[derive(Clone, Debug)]
pub struct DutyOptions {
    /// `--update-status`.
    pub update_status: bool,
    /// `--update-status-on-shutdown`.
    pub update_status_on_shutdown: bool,
    /// `--status-update-interval`.
    pub status_update_interval: Duration,
    /// `--publish-service`.
    pub publish_service: Option<NamespacedName>,
    /// `--publish-status-address`.
    pub publish_status_address: Vec<String>,
    /// `--report-node-internal-ip-address`.
    pub report_node_internal_ip_address: bool,
    /// `--election-id`.
    pub election_id: String,
    /// `--election-ttl`.
    pub election_ttl: Duration,
    /// `--disable-leader-election`.
    pub disable_leader_election: bool,
    /// `--disable-sync-events`.
    pub disable_sync_events: bool,
}

impl Default for DutyOptions {
    fn default() -> Self {
        Self {
            update_status: true,
            update_status_on_shutdown: true,
            status_update_interval: Duration::from_secs(60),
            publish_service: None,
            publish_status_address: Vec::new(),
            report_node_internal_ip_address: false,
            election_id: "sluice-leader".into(),
            election_ttl: Duration::from_secs(30),
            disable_leader_election: false,
            disable_sync_events: false,
        }
    }
}

/// The Pod that we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPod {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

/// One of the duties: who finds a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Duty {
    /// Leader election.
    Election,
    /// The status of Ingresses.
    Status,
    /// The addresses that go into it.
    Addresses,
    /// Events.
    Events,
    /// The look at our rights.
    Rights,
    /// The validating webhook.
    Webhook,
}

/// The duties at work. They end when this is dropped, in order when [`Duties::end`] is called.
#[derive(Debug)]
pub struct Duties {
    news: DutyNews,
    leading: watch::Receiver<bool>,
    stop: Option<oneshot::Sender<()>>,
    ended: Option<oneshot::Receiver<()>>,
}

/// Where the control plane tells the duties what there is to do. Nobody listens to an empty one.
#[derive(Clone, Debug, Default)]
pub struct DutyNews {
    status: Option<mpsc::UnboundedSender<IngressChanges>>,
    events: Option<mpsc::UnboundedSender<News>>,
}

impl Duties {
    /// Starts them. What they find goes to `inputs`.
    ///
    /// # Errors
    /// When what `access` names cannot be used, or there can be no thread.
    pub async fn start(
        access: Access,
        options: DutyOptions,
        pod: OwnPod,
        watch_namespace: Option<String>,
        inputs: mpsc::WeakSender<Input>,
    ) -> Result<Self, AccessError> {
        let (status, seen) = mpsc::unbounded_channel();
        let (events, told) = mpsc::unbounded_channel();
        // What nobody writes is not passed on.
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
            let at_work = AtWork { client, options, pod, watch_namespace, findings: Findings::new(inputs) };
            at_work.run(lead, seen, told, stopped).await;
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

    /// Where the control plane tells what there is to do.
    pub fn news(&self) -> DutyNews {
        self.news.clone()
    }

    /// Whether this replica leads.
    pub fn leading(&self) -> watch::Receiver<bool> {
        self.leading.clone()
    }

    /// Ends them in order: clears the status where this was the last replica, then releases the Lease.
    pub async fn end(mut self) {
        let (Some(stop), Some(ended)) = (self.stop.take(), self.ended.take()) else { return };
        let _ = stop.send(());
        if tokio::time::timeout(END, ended).await.is_err() {
            tracing::warn!(limit = ?END, "the Kubernetes API does not answer: the Lease and the status stay as they are");
        }
    }
}

impl DutyNews {
    /// What has become of Ingresses.
    pub fn ingresses(&self, changes: IngressChanges) {
        // It is only at the end that nobody listens.
        if let Some(events) = &self.events {
            let edited = changes.changes.iter().filter_map(|change| match change {
                IngressChange::Seen { name, uid, edited: true, .. } => Some((name.clone(), uid.clone())),
                _ => None,
            });
            // At the start all of them are new to us, and to nobody else.
            let edited: Vec<_> = if changes.first { Vec::new() } else { edited.collect() };
            if !edited.is_empty() {
                let _ = events.send(News::Edited(edited));
            }
        }
        if let Some(status) = &self.status {
            let _ = status.send(changes);
        }
    }

    /// How the problems differ from before.
    pub fn problems(&self, changes: &ProblemChanges) {
        if let Some(events) = &self.events {
            let _ = events.send(News::Problems(changes.clone()));
        }
    }
}

/// What the thread works with.
struct AtWork {
    client: Client,
    options: DutyOptions,
    pod: OwnPod,
    watch_namespace: Option<String>,
    findings: Findings,
}

impl AtWork {
    async fn run(
        self,
        lead: watch::Sender<bool>,
        seen: mpsc::UnboundedReceiver<IngressChanges>,
        told: mpsc::UnboundedReceiver<News>,
        stopped: oneshot::Receiver<()>,
    ) {
        let Self { client, options, pod, watch_namespace, findings } = self;
        let (stop_status, status_stopped) = oneshot::channel();
        let (stop_election, election_stopped) = oneshot::channel();
        let needed = rights::needed(&options, &pod, watch_namespace.as_deref());
        tokio::spawn(rights::watch(client.clone(), needed, findings.clone()));
        let events = EventWriter::new(&client, &options, &pod, &findings, lead.subscribe());
        tokio::spawn(events.run(told));
        let status = options.update_status.then(|| {
            let writer = StatusWriter::start(&client, &options, &pod, &findings, lead.subscribe());
            tokio::spawn(writer.run(seen, status_stopped))
        });
        let candidate = Candidate {
            api: Api::<Lease>::namespaced(client.clone(), &pod.namespace),
            name: options.election_id.clone(),
            election: Election::new(pod.name.clone(), options.election_ttl),
            leading: lead,
            findings,
        };
        let election = match options.disable_leader_election {
            // Somebody has to hold the other end for as long as the others run.
            true => tokio::spawn(async move {
                let _ = election_stopped.await;
                drop(candidate);
            }),
            false => tokio::spawn(candidate.run(election_stopped)),
        };
        if stopped.await.is_err() {
            // The program ends at once.
            return;
        }
        // In this order: only a leader writes.
        let _ = stop_status.send(());
        if let Some(status) = status {
            let _ = status.await;
        }
        let _ = stop_election.send(());
        let _ = election.await;
    }
}
