//! Where all watches come together: their events become batches of events, without delay and without loss.
//!
//! The order of the start: everything is listed but Secrets and ConfigMaps that objects refer to; the translation then
//! says which those are; they are listed, and with them the state is complete. There is no order between kinds later:
//! an Ingress whose Service or Secret has not come yet has a recorded miss, and the object sets it right.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use sluice_config::{Code, ObjectRef, Problem};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::api_health::ApiHealthState;
use super::failure::{self, Of, WatchFailure};
use super::known::Known;
use super::referenced_objects::{Number, ReferencedObjects, Want};
use super::relist::Relist;
use super::watcher::{WatchEvent, Watcher, What};
use super::wire::Item;
use crate::input::Input;
use crate::problem::{error, warning};
use crate::store::{
    Batch, ClassAccess, Event, Kind, Need, Needs, ObjectKey, Progress, Reference, References,
};

/// Events of watches that become one batch at most.
pub(super) const MANY: usize = 512;
/// So many refusals in a row, of a right that there never was, are no passing thing. With the pauses between them they
/// take about a minute.
const REFUSALS: u32 = 10;

/// The reader of all watches.
pub(super) struct Reader {
    watches: Vec<Watch>,
    referenced: ReferencedObjects,
    /// The same for those who decode.
    needs: Needs,
    /// Questions under way.
    fetches: HashMap<Number, AbortHandle>,
    api_health: watch::Receiver<ApiHealthState>,
    progress: Progress,
    /// Whether there is a problem that the API cannot be reached.
    unreachable: bool,
    /// Whether the translation has given its references to Secrets and ConfigMaps.
    told: bool,
    events: Vec<Event>,
    problems_changed: bool,
}

/// One watch.
struct Watch {
    watcher: Watcher,
    known: Known,
    /// What runs it, once it has been started.
    task: Option<AbortHandle>,
    relist: Relist,
    /// Whether a list has come to its end.
    listed: bool,
    /// Refusals before the first list.
    refusals: u32,
    /// Whether the API did not have the kind when it was asked, which is normal for an optional kind.
    absent: bool,
    failure: Option<WatchFailure>,
}

impl Reader {
    pub(super) fn new(
        watchers: Vec<Watcher>,
        needs: Needs,
        api_health: watch::Receiver<ApiHealthState>,
    ) -> Self {
        let watch = |watcher| Watch {
            watcher,
            known: Known::default(),
            task: None,
            relist: Relist::default(),
            listed: false,
            refusals: 0,
            absent: false,
            failure: None,
        };
        Self {
            watches: watchers.into_iter().map(watch).collect(),
            referenced: ReferencedObjects::default(),
            needs,
            fetches: HashMap::new(),
            api_health,
            progress: Progress::Reading,
            unreachable: false,
            told: false,
            events: Vec::new(),
            problems_changed: false,
        }
    }

    /// Runs until the receiver of batches is gone, or `stop` is dropped.
    pub(super) async fn run(
        mut self,
        mut events: mpsc::Receiver<WatchEvent>,
        mut references: mpsc::UnboundedReceiver<References>,
        inputs: mpsc::Sender<Input>,
        mut stop: watch::Receiver<()>,
    ) {
        self.watches.iter_mut().filter(|watch| !watch.watcher.scope.referred).for_each(Watch::start);
        let mut api_health = self.api_health.clone();
        let mut buffer = Vec::with_capacity(MANY);
        loop {
            let mut received_at = Instant::now();
            tokio::select! {
                biased;
                // Nothing is sent: the sender is dropped at shutdown.
                _ = stop.changed() => return,
                Some(changes) = references.recv() => self.refer(changes),
                _ = events.recv_many(&mut buffer, MANY) => {
                    received_at = buffer.first().map_or(received_at, |event| event.at);
                    buffer.drain(..).for_each(|event| self.take(event));
                }
                () = until(self.relist_due()) => self.relist(Instant::now()),
                // Its sender lives in every watch.
                _ = api_health.changed() => self.problems_changed = true,
            }
            if let Some(batch) = self.batch(received_at)
                && inputs.send(Input::Batch(batch)).await.is_err()
            {
                return;
            }
        }
    }

    fn take(&mut self, event: WatchEvent) {
        let watch = &mut self.watches[event.scope];
        let (kind, referred) = (watch.watcher.scope.kind, watch.watcher.scope.referred);
        match event.what {
            What::Begin => {
                watch.known.begin();
                watch.relist.begin();
            }
            What::Item(item) => {
                watch.relist.count();
                if !referred || self.is_wanted(event.scope, &item) {
                    self.put(event.scope, item);
                }
            }
            What::Gone(name, version) => {
                let wanted = !referred || self.tell(&ObjectKey { kind, name: name.clone() });
                let known = &mut self.watches[event.scope].known;
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
                watch.relist.done();
                if kind == Kind::IngressClass {
                    self.events.push(Event::Classes(ClassAccess::Listed));
                }
            }
            What::Works => self.problems_changed |= watch.failure.take().is_some(),
            What::Failed(WatchFailure::NoKind) if watch.may_be_absent() => {
                watch.absent = true;
                self.problems_changed |= watch.failure.take().is_some();
            }
            What::Failed(failure) => {
                if matches!(failure, WatchFailure::Forbidden(_)) && !watch.listed {
                    watch.refusals = watch.refusals.saturating_add(1);
                    match watch.refusals {
                        _ if kind != Kind::IngressClass => {}
                        1 => self.events.push(Event::Classes(ClassAccess::Refused)),
                        REFUSALS => self.events.push(Event::Classes(ClassAccess::Withheld)),
                        _ => {}
                    }
                }
                // That the API is away is a problem of its own, and what was wrong before may still be.
                if failure.problem(&watch.watcher.scope, watch.of()).is_some() {
                    self.problems_changed |= watch.failure.as_ref() != Some(&failure);
                    watch.failure = Some(failure);
                }
            }
            What::Fetched(name, number, item) => {
                self.fetches.remove(&number);
                let key = ObjectKey { kind, name };
                if self.referenced.answer(&key, number) {
                    self.problems_changed = true;
                    match item {
                        Some(item) => self.put(event.scope, item),
                        // It may have been there when less of it was needed.
                        None if self.watches[event.scope].known.forget(&key.name) => {
                            self.events.push(Event::Delete(key));
                        }
                        None => {}
                    }
                }
            }
            What::Unfetched(name, number, failure) => {
                self.problems_changed |= self.referenced.fail(&ObjectKey { kind, name }, number, failure);
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

    /// A watch has an object that something may refer to. True when it is what somebody wants to know. One that was
    /// decoded before other fields came to be needed is none; the question for it is under way.
    fn is_wanted(&mut self, scope: usize, item: &Item) -> bool {
        let Some(name) = item.name() else { return true };
        let key = ObjectKey { kind: self.watches[scope].watcher.scope.kind, name: name.clone() };
        let Some(needed) = self.referenced.fields(&key) else { return false };
        if item.fields().is_some_and(|fields| fields != needed) {
            self.watches[scope].known.seen(name);
            return false;
        }
        self.tell(&key)
    }

    /// A watch says something about an object. True when somebody wants to know.
    fn tell(&mut self, key: &ObjectKey) -> bool {
        let Some(question) = self.referenced.tell(key) else { return false };
        self.drop_question(question);
        true
    }

    fn drop_question(&mut self, number: Option<Number>) {
        let Some(number) = number else { return };
        // Its failure goes with it.
        self.problems_changed = true;
        if let Some(fetch) = self.fetches.remove(&number) {
            fetch.abort();
        }
    }

    /// The translation refers to other objects than before, or needs other fields of them.
    fn refer(&mut self, changes: References) {
        for key in changes.released {
            self.needs.set(&key, None);
            let question = self.referenced.release(&key);
            self.drop_question(question);
            for watch in self.watches.iter_mut().filter(|watch| watch.has(&key)) {
                self.problems_changed |= watch.known.has_faults();
                if watch.known.forget(&key.name) {
                    self.events.push(Event::Delete(key.clone()));
                }
            }
        }
        for Reference { object: key, fields } in changes.wanted {
            self.needs.set(&key, Some(fields.clone()));
            let watch = self.watches.iter_mut().find(|watch| watch.has(&key));
            let seen =
                watch.is_some_and(|watch| watch.is_started() && !watch.comes_with_list(Instant::now()));
            let Want { question, dropped } = self.referenced.want(&key, fields, seen);
            self.drop_question(dropped);
            for watch in self.watches.iter_mut().filter(|watch| watch.has(&key)) {
                watch.known.renew(&key.name);
                if watch.watcher.scope.is_lazy() && !watch.is_started() {
                    watch.start();
                }
            }
            if let Some(number) = question {
                self.fetch(key, number);
            }
        }
        if !std::mem::replace(&mut self.told, true) {
            let scope = |watch: &Watch| watch.watcher.scope.referred && !watch.watcher.scope.is_lazy();
            self.watches.iter_mut().filter(|watch| scope(watch)).for_each(Watch::start);
        }
    }

    /// When a watch is to begin anew with a list.
    fn relist_due(&self) -> Option<Instant> {
        self.watches.iter().filter_map(|watch| watch.relist.due()).min()
    }

    fn relist(&mut self, now: Instant) {
        let due = |watch: &&mut Watch| watch.relist.due().is_some_and(|at| at <= now);
        for watch in self.watches.iter_mut().filter(due) {
            watch.relist.start(now);
            if let Some(task) = watch.task.take() {
                task.abort();
            }
            watch.start();
        }
    }

    fn fetch(&mut self, key: ObjectKey, number: Number) {
        // One in a namespace that is not watched is out of reach, and stays missing.
        if let Some(watch) = self.watch_of(&key) {
            let fetch = tokio::spawn(watch.watcher.clone().fetch(key.name, number));
            self.fetches.insert(number, fetch.abort_handle());
        }
    }

    /// The watch that an object comes with that something refers to.
    fn watch_of(&self, key: &ObjectKey) -> Option<&Watch> {
        self.watches.iter().find(|watch| watch.has(key))
    }

    /// The next batch, if there is anything for one.
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
        let synced = |referred: bool| {
            let mut watches = self.watches.iter();
            watches.all(|watch| watch.is_synced() || watch.watcher.scope.referred != referred)
        };
        let reached = match (synced(false), synced(true)) {
            (true, true) => Progress::Complete,
            (true, false) => Progress::AllButReferred,
            (false, _) => Progress::Reading,
        };
        if reached > self.progress {
            self.progress = reached;
            return reached;
        }
        let away = reached < Progress::Complete && self.api_health.borrow().away.is_some();
        if away && !std::mem::replace(&mut self.unreachable, true) {
            return Progress::Unreachable;
        }
        Progress::Reading
    }

    fn problems(&self) -> Vec<Problem> {
        let api_health = self.api_health.borrow();
        let failing = api_health.failing.iter().map(|(path, away)| {
            error(
                Code::ApiRefused,
                &ObjectRef::new("KubernetesApi", "", path),
                "list, watch",
                format!("it has failed since {}, while others are answered: {}", away.since, away.reason),
                "see the log of the API server; it is tried again all the time",
            )
        });
        let away = api_health.away.as_ref().map(|away| {
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
        let asked = self.referenced.faults().filter_map(|(key, failure)| {
            failure.problem(&self.watch_of(key)?.watcher.scope, Of::Object(key))
        });
        self.watches.iter().flat_map(Watch::problems).chain(asked).chain(failing).chain(away).collect()
    }
}

impl Watch {
    /// Whether it is normal that the API does not have its kind: some clusters do not, and then there are no such objects.
    /// A kind of which there were objects has disappeared without an event, which is a problem.
    fn may_be_absent(&self) -> bool {
        self.watcher.scope.need == Need::Optional && self.known.is_empty()
    }

    /// Whether the start need not wait for it: its list is complete, or nothing needs it, or it is refused and can
    /// be done without, or there is no such kind. Of IngressClasses the translation knows whether they can.
    fn is_synced(&self) -> bool {
        let scope = &self.watcher.scope;
        self.listed
            || self.absent
            || scope.may_be_withheld() && self.refusals > 0
            || scope.is_lazy() && !self.is_started()
    }

    /// Whether it brings an object that something refers to.
    fn has(&self, key: &ObjectKey) -> bool {
        let scope = &self.watcher.scope;
        scope.referred && scope.kind == key.kind && scope.covers(&key.name)
    }

    fn start(&mut self) {
        self.task = Some(tokio::spawn(self.watcher.clone().run()).abort_handle());
    }

    fn is_started(&self) -> bool {
        self.task.is_some()
    }

    /// Whether an object that something refers to from now on comes with another list of all. Not
    /// while the watch does not work: what is wrong with it would be forgotten with its task.
    fn comes_with_list(&mut self, now: Instant) -> bool {
        self.listed && self.failure.is_none() && self.relist.want(now)
    }

    fn of(&self) -> Of<'static> {
        Of::Watch { listed: self.listed }
    }

    fn problems(&self) -> impl Iterator<Item = Problem> {
        let scope = &self.watcher.scope;
        let (unreadable, nameless) = self.known.faults();
        let unreadable = unreadable.map(|name| failure::unreadable(scope.kind, name));
        let nameless = nameless.then(|| failure::nameless(scope));
        let failure = self.failure.as_ref().and_then(|failure| failure.problem(scope, self.of()));
        failure.into_iter().chain(unreadable).chain(nameless)
    }
}

/// Waits until then; for ever where there is no such time.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
