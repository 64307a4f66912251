//! Kubernetes Events: report problems in `kubectl describe` to owners of objects without access to
//! logs and metrics.
//!
//! There is one Event for each problem of an object that exists in an API server, with the
//! problem's code as its reason, and a Sync Event for each edited Ingress. The leader writes them.
//! The name of an Event is derived from its content, so a repeated problem is one Event with a
//! count, independent of the leading replica. The recorder of kube would merge all problems of a
//! kind, and restart its counts with each process. Events are written at a bounded rate, the newest
//! first. Events of persistent problems are renewed, because API servers delete Events after an
//! hour.

mod queue;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use sluice_config::{NamespacedName, Problem, Uid};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::cluster::api::{Refused, execute};
use crate::cluster::{DutyOptions, Findings, OwnPod, refusal};
use crate::problem::{Duty, ProblemChanges};
use queue::{Note, Queue};

/// Reporting component of the Events.
const COMPONENT: &str = "sluice";
/// Interval between renewals of the Events of persistent problems.
const RENEWAL: Duration = Duration::from_secs(30 * 60);
/// Maximum number of refused writes that are reported at once.
const MOST_REFUSALS: usize = 20;
/// Namespace of Events about cluster-scoped objects.
const NO_NAMESPACE: &str = "default";

/// Input of the event writer.
#[derive(Debug)]
pub(crate) enum News {
    /// Problems appeared or disappeared.
    Problems(ProblemChanges),
    /// Ingresses were edited.
    Edited(Vec<(NamespacedName, Option<Uid>)>),
}

/// Writes Events.
pub(crate) struct EventWriter {
    client: Client,
    instance: String,
    findings: Findings,
    leading: watch::Receiver<bool>,
    sync: bool,
    queue: Queue,
    /// Last refused write, by namespace.
    refused: BTreeMap<String, Problem>,
}

impl EventWriter {
    pub(crate) fn new(
        client: &Client,
        options: &DutyOptions,
        pod: &OwnPod,
        findings: &Findings,
        leading: watch::Receiver<bool>,
    ) -> Self {
        Self {
            client: client.clone(),
            instance: pod.name.clone(),
            findings: findings.clone(),
            leading,
            sync: !options.disable_sync_events,
            queue: Queue::new(Instant::now()),
            refused: BTreeMap::new(),
        }
    }

    /// Runs until all senders are gone.
    pub(crate) async fn run(mut self, mut news: mpsc::UnboundedReceiver<News>) {
        let mut renewal = Instant::now() + RENEWAL;
        loop {
            let leads = *self.leading.borrow();
            let next = self.queue.next().filter(|_| leads);
            tokio::select! {
                biased;
                change = news.recv() => match change {
                    Some(News::Problems(changes)) => self.queue.problems(&changes, leads),
                    Some(News::Edited(ingresses)) if self.sync && leads => self.queue.edited(ingresses),
                    Some(News::Edited(_)) => {}
                    None => return,
                },
                changed = self.leading.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    match *self.leading.borrow_and_update() {
                        // Changes that arrived while no replica led may be unreported.
                        true => self.queue.renew(),
                        false => self.queue.clear(),
                    }
                }
                () = sleep_until(next.unwrap_or(renewal)), if next.is_some() => {
                    if let Some(note) = self.queue.pop(Instant::now()) {
                        self.write(note).await;
                    }
                }
                () = sleep_until(renewal) => {
                    renewal = Instant::now() + RENEWAL;
                    if leads {
                        self.queue.renew();
                    }
                }
            }
        }
    }

    async fn write(&mut self, note: Note) {
        let namespace = if note.namespace.is_empty() { NO_NAMESPACE } else { &note.namespace };
        let api = Api::<Event>::namespaced(self.client.clone(), namespace);
        let now = Timestamp::now();
        let outcome = match note.count {
            1 => {
                match execute(api.create(&PostParams::default(), &self.event(&note, namespace, now))).await {
                    // Another replica wrote the Event earlier.
                    Err(Refused::Conflict) => count(&api, &note.id, 2, now).await,
                    outcome => outcome.map(drop),
                }
            }
            many => match count(&api, &note.id, many, now).await {
                // The API server has deleted the Event.
                Err(Refused::NotFound) => {
                    execute(api.create(&PostParams::default(), &self.event(&note, namespace, now)))
                        .await
                        .map(drop)
                }
                outcome => outcome,
            },
        };
        self.done(note, outcome);
    }

    /// Processes the result of a write.
    fn done(&mut self, note: Note, outcome: Result<(), Refused>) {
        let now = Instant::now();
        if let Err(refused) = &outcome {
            tracing::debug!(event = note.id, error = %refused, "an Event was not written");
        }
        let effect = "the same problems are in the log and in `sluice problems`";
        let problem = outcome.as_ref().err().and_then(|refused| refusal("events", effect, refused));
        match outcome {
            // Not found: the object or its namespace is gone.
            Ok(()) | Err(Refused::NotFound | Refused::Conflict) => {
                self.queue.answered(&note.namespace, true);
                self.refused.remove(&note.namespace);
            }
            Err(refused) => {
                let again = concerns_others(&refused);
                match &refused {
                    Refused::Away { retry_after, .. } => self.queue.failed(*retry_after, now),
                    _ => self.queue.answered(&note.namespace, !again),
                }
                if let Some(problem) = problem {
                    self.refused.insert(note.namespace.clone(), problem);
                }
                if again {
                    self.queue.put_back(note, now);
                }
            }
        }
        let mut problems: Vec<Problem> = self.refused.values().take(MOST_REFUSALS).cloned().collect();
        problems.dedup();
        self.findings.set(Duty::Events, problems);
    }

    fn event(&self, note: &Note, namespace: &str, now: Timestamp) -> Event {
        let text = |text: &str| Some(text.to_owned());
        Event {
            metadata: ObjectMeta {
                name: text(&note.id),
                namespace: text(namespace),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some(note.api_version.clone()),
                kind: text(&note.kind),
                name: text(&note.name),
                namespace: Some(note.namespace.clone()).filter(|namespace| !namespace.is_empty()),
                uid: note.uid.as_ref().map(ToString::to_string),
                ..ObjectReference::default()
            },
            type_: text(note.type_),
            reason: text(note.reason),
            message: Some(note.message.clone()),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            event_time: Some(MicroTime(now)),
            action: text(note.action),
            source: Some(EventSource { component: text(COMPONENT), ..EventSource::default() }),
            reporting_component: text(COMPONENT),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }
}

/// Returns whether the refusal affects other Events of the namespace. A denial by a webhook or a
/// policy affects one Event only.
fn concerns_others(refused: &Refused) -> bool {
    match refused {
        Refused::Forbidden(message) => message.contains("cannot create") || message.contains("cannot patch"),
        Refused::Quota(_) | Refused::Away { .. } => true,
        Refused::NotFound | Refused::Conflict | Refused::Invalid(_) => false,
    }
}

/// Updates the count of an Event.
async fn count(api: &Api<Event>, id: &str, count: u32, now: Timestamp) -> Result<(), Refused> {
    let patch = json!({"count": count, "lastTimestamp": Time(now)});
    execute(api.patch(id, &PatchParams::default(), &Patch::Merge(patch))).await.map(drop)
}
