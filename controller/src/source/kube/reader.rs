//! Combines the events of all watches into batches, without delay or loss.
//!
//! The order of the start: first everything except referenced Secrets and ConfigMaps is listed;
//! then the translation reports the references; these are listed, and the state is complete. Later
//! there is no order between kinds: if an Ingress arrives before its Service or Secret, the miss is
//! recorded, and the object's arrival updates it.

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

/// Maximum number of events in one batch.
pub(super) const MANY: usize = 512;
/// Number of consecutive refusals, of a right that never existed, after which they are considered
/// permanent. With the waits between them this takes about one minute.
const REFUSALS: u32 = 10;

/// The reader of all watches.
pub(super) struct Reader {
    watches: Vec<Watch>,
    referenced: ReferencedObjects,
    /// The needed fields, shared with the decoders.
    needs: Needs,
    /// Requests by name in progress.
    fetches: HashMap<Number, AbortHandle>,
    api_health: watch::Receiver<ApiHealthState>,
    progress: Progress,
    /// Whether an unreachable API was reported.
    unreachable: bool,
    /// Whether the translation has reported its references.
    has_references: bool,
    events: Vec<Event>,
    problems_changed: bool,
}

/// One watch.
struct Watch {
    watcher: Watcher,
    known: Known,
    /// The running task. `None` until the watch is started.
    task: Option<AbortHandle>,
    relist: Relist,
    /// Whether a list was completed.
    listed: bool,
    /// Refusals before the first list.
    refusals: u32,
    /// Whether the API lacked the kind at the last request, which is normal for an optional kind.
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
            has_references: false,
            events: Vec::new(),
            problems_changed: false,
        }
    }

    /// Runs until the receiver of batches is dropped, or `stop` is.
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
                // `stop` never carries a value: its sender is dropped at shutdown.
                _ = stop.changed() => return,
                Some(changes) = references.recv() => self.refer(changes),
                _ = events.recv_many(&mut buffer, MANY) => {
                    received_at = buffer.first().map_or(received_at, |event| event.at);
                    buffer.drain(..).for_each(|event| self.take(event));
                }
                () = until(self.relist_due()) => self.relist(Instant::now()),
                // Every watch holds a sender, so the channel stays open.
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
                let wanted = !referred || self.watched(&ObjectKey { kind, name: name.clone() });
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
                // An unreachable API is a separate problem, and an earlier failure may persist.
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
                        // It may have been known from a time when other fields were needed.
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

    /// Processes an object that a watch or a request by name returned.
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

    /// Returns whether an object from a watch is referenced. One that was decoded before other
    /// fields were needed does not count; a request by name is in progress for it.
    fn is_wanted(&mut self, scope: usize, item: &Item) -> bool {
        let Some(name) = item.name() else { return true };
        let key = ObjectKey { kind: self.watches[scope].watcher.scope.kind, name: name.clone() };
        let Some(needed) = self.referenced.fields(&key) else { return false };
        if item.fields().is_some_and(|fields| fields != needed) {
            self.watches[scope].known.seen(name);
            return false;
        }
        self.watched(&key)
    }

    /// Records that a watch delivered an event of an object. Returns whether the object is
    /// referenced.
    fn watched(&mut self, key: &ObjectKey) -> bool {
        let Some(question) = self.referenced.watched(key) else { return false };
        self.drop_question(question);
        true
    }

    fn drop_question(&mut self, number: Option<Number>) {
        let Some(number) = number else { return };
        // The failure of the request becomes irrelevant too.
        self.problems_changed = true;
        if let Some(fetch) = self.fetches.remove(&number) {
            fetch.abort();
        }
    }

    /// Updates the references of the translation and the fields that they need.
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
        if !std::mem::replace(&mut self.has_references, true) {
            let scope = |watch: &Watch| watch.watcher.scope.referred && !watch.watcher.scope.is_lazy();
            self.watches.iter_mut().filter(|watch| scope(watch)).for_each(Watch::start);
        }
    }

    /// Returns when the next watch must start again with a list.
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
        // An object in an unwatched namespace cannot be requested and stays missing.
        if let Some(watch) = self.watch_of(&key) {
            let fetch = tokio::spawn(watch.watcher.clone().fetch(key.name, number));
            self.fetches.insert(number, fetch.abort_handle());
        }
    }

    /// Returns the watch that delivers a referenced object.
    fn watch_of(&self, key: &ObjectKey) -> Option<&Watch> {
        self.watches.iter().find(|watch| watch.has(key))
    }

    /// Returns the next batch, if there is any change.
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

    /// Returns the new progress if it has advanced.
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
    /// Returns whether the absence of the kind is normal. If objects of the kind were known, it has
    /// disappeared without an event, which is a problem.
    fn may_be_absent(&self) -> bool {
        self.watcher.scope.need == Need::Optional && self.known.is_empty()
    }

    /// Returns whether the start need not wait for this watch: its list is complete, or no
    /// reference needs it, or it was refused and is dispensable, or the kind is absent. For
    /// IngressClasses the translation decides whether they are dispensable.
    fn is_synced(&self) -> bool {
        let scope = &self.watcher.scope;
        self.listed
            || self.absent
            || scope.may_be_withheld() && self.refusals > 0
            || scope.is_lazy() && !self.is_started()
    }

    /// Returns whether the watch delivers a referenced object.
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

    /// Returns whether a newly referenced object will arrive with another complete list. Not while
    /// the watch fails: restarting its task would drop the failure.
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

/// Waits until `at`, or forever without one.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
