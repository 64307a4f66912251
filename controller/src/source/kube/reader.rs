//! Where all watches come together: their news become batches of events, without delay and without loss.
//!
//! The order of the start: everything but Secrets is listed; the translation then says which Secrets are
//! referred to; those are listed, and with them the state is complete. There is no order between kinds later:
//! an Ingress whose Service or Secret has not come yet has a recorded miss, and the object sets it right.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use sluice_config::{Code, NamespacedName, ObjectRef, Problem};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::contact::ContactState;
use super::fault::{self, Fault, Of};
use super::interest::{Interest, Number};
use super::known::Known;
use super::watcher::{News, Watcher, What};
use super::wire::Item;
use crate::problem::{error, warning};
use crate::source::{Batch, ClassAccess, Event, Progress, References};
use crate::store::{Kind, ObjectKey};

/// News that become one batch at most.
pub(super) const MANY: usize = 512;
/// So many refusals in a row, of a right that there never was, are no passing thing. With the pauses between them they
/// take about a minute.
const REFUSALS: u32 = 10;

/// The reader of all watches.
pub(super) struct Reader {
    watches: Vec<Watch>,
    interest: Interest,
    /// Questions under way.
    fetches: HashMap<Number, AbortHandle>,
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
    /// Whether a list has come to its end.
    listed: bool,
    /// Refusals before the first list.
    refusals: u32,
    fault: Option<Fault>,
}

impl Reader {
    pub(super) fn new(watchers: Vec<Watcher>, contact: watch::Receiver<ContactState>) -> Self {
        let watch =
            |watcher| Watch { watcher, known: Known::default(), listed: false, refusals: 0, fault: None };
        Self {
            watches: watchers.into_iter().map(watch).collect(),
            interest: Interest::default(),
            fetches: HashMap::new(),
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
        match news.what {
            What::Begin => watch.known.begin(),
            What::Item(item) => {
                let wanted = kind != Kind::Secret || item.name().is_none_or(|name| self.tell(name));
                if wanted {
                    self.put(news.scope, item);
                }
            }
            What::Gone(name, version) => {
                let wanted = kind != Kind::Secret || self.tell(&name);
                let known = &mut self.watches[news.scope].known;
                self.problems_changed |= known.has_faults();
                if wanted && known.gone(&name, version) {
                    self.events.push(Event::Delete(ObjectKey { kind, name }));
                }
            }
            What::Done => {
                self.problems_changed |= watch.known.has_faults();
                let gone = watch.known.done().into_iter();
                self.events.extend(gone.map(|name| Event::Delete(ObjectKey { kind, name })));
                watch.listed = true;
                if kind == Kind::IngressClass {
                    self.events.push(Event::Classes(ClassAccess::Listed));
                }
            }
            What::Works => self.problems_changed |= watch.fault.take().is_some(),
            What::Failed(fault) => {
                if let (Fault::Forbidden(_), Kind::IngressClass, false) = (&fault, kind, watch.listed) {
                    watch.refusals = watch.refusals.saturating_add(1);
                    match watch.refusals {
                        1 => self.events.push(Event::Classes(ClassAccess::Refused)),
                        REFUSALS => self.events.push(Event::Classes(ClassAccess::Withheld)),
                        _ => {}
                    }
                }
                // That the API is away is said elsewhere, and what was wrong before may still be.
                if fault.problem(&watch.watcher.scope, watch.of()).is_some() {
                    self.problems_changed |= watch.fault.as_ref() != Some(&fault);
                    watch.fault = Some(fault);
                }
            }
            What::Fetched(name, number, item) => {
                self.fetches.remove(&number);
                if self.interest.answer(&name, number) {
                    self.problems_changed = true;
                    if let Some(item) = item {
                        self.put(news.scope, item);
                    }
                }
            }
            What::Unfetched(name, number, fault) => {
                self.problems_changed |= self.interest.fail(&name, number, fault);
            }
        }
    }

    /// Takes in what a watch or an answer says of an object.
    fn put(&mut self, scope: usize, item: Item) {
        let known = &mut self.watches[scope].known;
        self.problems_changed |= known.has_faults();
        match item {
            Item::Object(object, version) => {
                if known.put(&object, version) {
                    self.events.push(Event::Put(object));
                }
            }
            Item::Unreadable(name) => {
                known.unreadable(name.as_ref());
                self.problems_changed = true;
            }
            Item::Skipped => {}
        }
    }

    /// A watch says something about a Secret. True when somebody wants to know.
    fn tell(&mut self, name: &NamespacedName) -> bool {
        let Some(question) = self.interest.tell(name) else { return false };
        self.drop_question(question);
        true
    }

    fn drop_question(&mut self, number: Option<Number>) {
        let Some(number) = number else { return };
        // Its fault goes with it.
        self.problems_changed = true;
        if let Some(fetch) = self.fetches.remove(&number) {
            fetch.abort();
        }
    }

    /// The translation refers to other Secrets than before.
    fn refer(&mut self, changes: References) {
        for name in &changes.released {
            let question = self.interest.release(name);
            self.drop_question(question);
            for watch in self.watches.iter_mut().filter(|watch| watch.watcher.scope.kind == Kind::Secret) {
                self.problems_changed |= watch.known.has_faults();
                if watch.known.forget(name) {
                    let key = ObjectKey { kind: Kind::Secret, name: name.clone() };
                    self.events.push(Event::Delete(key));
                }
            }
        }
        for name in changes.wanted {
            if let Some(number) = self.interest.want(&name, self.told) {
                self.fetch(name, number);
            }
        }
        if !self.told {
            self.told = true;
            for watch in self.watches.iter().filter(|watch| watch.watcher.scope.kind == Kind::Secret) {
                tokio::spawn(watch.watcher.clone().run());
            }
        }
    }

    fn fetch(&mut self, name: NamespacedName, number: Number) {
        // One in a namespace that is not watched is out of reach, and stays missing.
        if let Some(watch) = self.watch_of(&name) {
            let fetch = tokio::spawn(watch.watcher.clone().fetch(name, number));
            self.fetches.insert(number, fetch.abort_handle());
        }
    }

    /// The watch that a Secret comes with.
    fn watch_of(&self, name: &NamespacedName) -> Option<&Watch> {
        let covers =
            |watch: &&Watch| watch.watcher.scope.kind == Kind::Secret && watch.watcher.scope.covers(name);
        self.watches.iter().find(covers)
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
            watches.all(|watch| watch.is_synced() || (watch.watcher.scope.kind == Kind::Secret) != secrets)
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
                Code::ApiRefused,
                &ObjectRef::new("KubernetesApi", "", path),
                "list, watch",
                format!("it has failed since {}, while others are answered: {}", away.since, away.reason),
                "see the log of the API server; it is tried again all the time",
            )
        });
        let away = contact.away.as_ref().map(|away| {
            warning(
                Code::ApiAway,
                &ObjectRef::new("KubernetesApi", "", "server"),
                "",
                format!(
                    "it has not answered since {}: {}; what it said last is served for as long as that takes",
                    away.since, away.reason
                ),
                "look after the API server and the network to it; it is tried again all the time",
            )
        });
        let secrets = self
            .interest
            .faults()
            .filter_map(|(name, fault)| fault.problem(&self.watch_of(name)?.watcher.scope, Of::Secret(name)));
        self.watches.iter().flat_map(Watch::problems).chain(secrets).chain(failing).chain(away).collect()
    }
}

impl Watch {
    /// Whether the start need not wait for it: a list has come to its end, or it is of IngressClasses, which some may
    /// not list. The translation knows whether it can do without those.
    fn is_synced(&self) -> bool {
        self.listed || self.refusals > 0
    }

    fn of(&self) -> Of<'static> {
        Of::Watch { listed: self.listed }
    }

    fn problems(&self) -> impl Iterator<Item = Problem> {
        let scope = &self.watcher.scope;
        let (unreadable, nameless) = self.known.faults();
        let unreadable = unreadable.map(|name| fault::unreadable(scope.kind, name));
        let nameless = nameless.then(|| fault::nameless(scope));
        let fault = self.fault.as_ref().and_then(|fault| fault.problem(scope, self.of()));
        fault.into_iter().chain(unreadable).chain(nameless)
    }
}

#[cfg(test)]
mod tests;
