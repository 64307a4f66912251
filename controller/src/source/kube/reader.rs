//! Where all watches come together: their news become batches of events, without delay and without loss.
//!
//! The order of the start: everything but Secrets is listed; the translation then says which Secrets are
//! referred to; those are listed, and with them the state is complete. There is no order between kinds later:
//! an Ingress whose Service or Secret has not come yet has a recorded miss, and the object sets it right.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_config::{NamespacedName, ObjectRef, Problem};
use tokio::sync::{mpsc, watch};

use super::contact::ContactState;
use super::fault::Fault;
use super::interest::Interest;
use super::known::Known;
use super::watcher::{News, Watcher, What};
use crate::problem::{error, warning};
use crate::source::{Batch, Event, Progress, References};
use crate::store::{Kind, ObjectKey};

/// News that become one batch at most.
pub(super) const MANY: usize = 512;

/// The reader of all watches.
pub(super) struct Reader {
    watches: Vec<Watch>,
    interest: Interest,
    contact: watch::Receiver<ContactState>,
    progress: Progress,
    /// Whether it has been said that the API cannot be reached.
    unreachable: bool,
    /// Whether the translation has said which Secrets are referred to.
    told: bool,
    events: Vec<Event>,
    problems_changed: bool,
}

/// One watch.
struct Watch {
    watcher: Watcher,
    known: Known,
    /// Whether a list has come to its end, or cannot and need not.
    synced: bool,
    problem: Option<Problem>,
}

impl Reader {
    pub(super) fn new(watchers: Vec<Watcher>, contact: watch::Receiver<ContactState>) -> Self {
        let watch = |watcher| Watch { watcher, known: Known::default(), synced: false, problem: None };
        Self {
            watches: watchers.into_iter().map(watch).collect(),
            interest: Interest::default(),
            contact,
            progress: Progress::Reading,
            unreachable: false,
            told: false,
            events: Vec::new(),
            problems_changed: false,
        }
    }

    /// Runs until nobody takes batches, or `stop` is dropped.
    pub(super) async fn run(
        mut self,
        mut news: mpsc::Receiver<News>,
        mut references: mpsc::UnboundedReceiver<References>,
        batches: mpsc::Sender<Batch>,
        mut stop: watch::Receiver<()>,
    ) {
        for watch in self.watches.iter().filter(|watch| watch.watcher.scope.kind != Kind::Secret) {
            tokio::spawn(watch.watcher.clone().run());
        }
        let mut contact = self.contact.clone();
        let mut buffer = Vec::with_capacity(MANY);
        loop {
            let mut received_at = Instant::now();
            tokio::select! {
                biased;
                // Its sender says nothing and is dropped at the end.
                _ = stop.changed() => return,
                Some(changes) = references.recv() => self.refer(changes),
                _ = news.recv_many(&mut buffer, MANY) => {
                    received_at = buffer.first().map_or(received_at, |news| news.at);
                    buffer.drain(..).for_each(|news| self.take(news));
                }
                // Its sender lives in every watch.
                _ = contact.changed() => self.problems_changed = true,
            }
            if let Some(batch) = self.batch(received_at)
                && batches.send(batch).await.is_err()
            {
                return;
            }
        }
    }

    fn take(&mut self, news: News) {
        let watch = &mut self.watches[news.scope];
        let kind = watch.watcher.scope.kind;
        let is_secret = kind == Kind::Secret;
        match news.what {
            What::Begin => watch.known.begin(),
            What::Put(object, version) => {
                if (!is_secret || self.interest.tell(object.name())) && watch.known.put(&object, version) {
                    self.events.push(Event::Put(object));
                }
            }
            What::Gone(name, version) => {
                if (!is_secret || self.interest.tell(&name)) && watch.known.gone(&name, version) {
                    self.events.push(Event::Delete(ObjectKey { kind, name }));
                }
            }
            What::Done => {
                let gone = watch.known.done().into_iter();
                self.events.extend(gone.map(|name| Event::Delete(ObjectKey { kind, name })));
                watch.synced = true;
                self.problems_changed |= watch.problem.take().is_some();
                if kind == Kind::IngressClass {
                    self.events.push(Event::Classes { readable: true });
                }
            }
            What::Failed(fault) => {
                if let (Fault::Forbidden(_), Kind::IngressClass) = (&fault, kind) {
                    watch.synced = true;
                    self.events.push(Event::Classes { readable: false });
                }
                let problem = fault.problem(&watch.watcher.scope);
                if problem.is_some() {
                    self.problems_changed |= watch.problem != problem;
                    watch.problem = problem;
                }
            }
            What::Fetched(name, found) => {
                if self.interest.answer(&name)
                    && let Some((object, version)) = found
                    && watch.known.put(&object, version)
                {
                    self.events.push(Event::Put(object));
                }
            }
        }
    }

    /// The translation refers to other Secrets than before.
    fn refer(&mut self, changes: References) {
        for name in &changes.released {
            self.interest.release(name);
            for watch in self.watches.iter_mut().filter(|watch| watch.watcher.scope.kind == Kind::Secret) {
                if watch.known.forget(name) {
                    let key = ObjectKey { kind: Kind::Secret, name: name.clone() };
                    self.events.push(Event::Delete(key));
                }
            }
        }
        for name in changes.wanted {
            if self.interest.want(&name, self.told) {
                self.fetch(name);
            }
        }
        if !self.told {
            self.told = true;
            for watch in self.watches.iter().filter(|watch| watch.watcher.scope.kind == Kind::Secret) {
                tokio::spawn(watch.watcher.clone().run());
            }
        }
    }

    fn fetch(&self, name: NamespacedName) {
        let covers = |watcher: &&Watcher| watcher.scope.kind == Kind::Secret && watcher.scope.covers(&name);
        // One in a namespace that is not watched is out of reach, and stays missing.
        if let Some(watcher) = self.watches.iter().map(|watch| &watch.watcher).find(covers) {
            tokio::spawn(watcher.clone().fetch(name));
        }
    }

    /// What there is to say, if anything.
    fn batch(&mut self, received_at: Instant) -> Option<Batch> {
        let progress = self.progress();
        let further = progress != Progress::Reading;
        if self.events.is_empty() && !self.problems_changed && !further {
            return None;
        }
        let problems = std::mem::take(&mut self.problems_changed).then(|| self.problems());
        Some(Batch {
            events: std::mem::take(&mut self.events),
            problems,
            skipped: further.then(BTreeMap::new),
            progress,
            received_at,
            parsing: Duration::ZERO,
        })
    }

    /// The next step, if it has been taken.
    fn progress(&mut self) -> Progress {
        let synced = |secrets: bool| {
            let mut watches = self.watches.iter();
            watches.all(|watch| watch.synced || (watch.watcher.scope.kind == Kind::Secret) != secrets)
        };
        let reached = match (synced(false), synced(true)) {
            (true, true) => Progress::Complete,
            (true, false) => Progress::AllButSecrets,
            (false, _) => Progress::Reading,
        };
        if reached > self.progress {
            self.progress = reached;
            return reached;
        }
        let away = reached < Progress::Complete && self.contact.borrow().away.is_some();
        if away && !std::mem::replace(&mut self.unreachable, true) {
            return Progress::Unreachable;
        }
        Progress::Reading
    }

    fn problems(&self) -> Vec<Problem> {
        let contact = self.contact.borrow();
        let failing = contact.failing.iter().map(|(path, away)| {
            error(
                &ObjectRef::new("KubernetesApi", "", path),
                "list, watch",
                format!("it has failed since {}, while others are answered: {}", away.since, away.reason),
                "see the log of the API server; it is tried again all the time",
            )
        });
        let away = contact.away.as_ref().map(|away| {
            warning(
                &ObjectRef::new("KubernetesApi", "", "server"),
                "",
                format!(
                    "it has not answered since {}: {}; what it said last is served for as long as that takes",
                    away.since, away.reason
                ),
                "look after the API server and the network to it; it is tried again all the time",
            )
        });
        self.watches.iter().filter_map(|watch| watch.problem.clone()).chain(failing).chain(away).collect()
    }
}
