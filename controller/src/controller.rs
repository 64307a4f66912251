//! The control plane as a value: events in, deltas and problems out. It is synchronous and has no
//! effects outside its own state; [`run()`](crate::run()) connects it to a source and a data plane.

use std::collections::BTreeSet;
use std::sync::Arc;

use sluice_config::{Change, Delta, Generation, ListenerGroup, Problem, Report, Snapshot, Subject};

use crate::options::Options;
use crate::problem::{Duty, Finder, ProblemChanges};
use crate::refusals::{self, Refusals};
use crate::startup_snapshot::StartupSnapshot;
use crate::store::{ConfigMap, Event, IngressChanges, Object, References, Resolved};
use crate::translate::Translation;
use crate::translate::global_settings::{self, KeyValue};
pub use crate::translate::{IngressCounts, ReviewVerdict, SnippetTranslation, Stats};

/// The control plane.
pub struct Controller {
    translation: Translation,
    generation: Generation,
    /// Whether the initial state of the source has been read.
    read: bool,
    /// Whether the source received the list of referenced objects and has not yet finished sending
    /// them.
    surveyed: bool,
    /// Whether the first complete state has been sent.
    complete: bool,
    /// Whether the data plane has received its listeners.
    listening: bool,
    startup_snapshot: Option<StartupSnapshot>,
    refusals: Refusals,
    /// The program's own ConfigMap at the last update; the outer `None` before the first.
    config_map: Option<Option<Arc<ConfigMap>>>,
}

/// The result of an update.
#[derive(Debug, Default)]
pub struct Update {
    /// Delta for the data plane, if anything changed.
    pub delta: Option<Delta>,
    /// Changes of the problems since the last update.
    pub problems: ProblemChanges,
    /// Changes of the set of referenced Secrets and ConfigMaps.
    pub references: References,
    /// Names to resolve, if the set changed.
    pub names: Option<BTreeSet<Arc<str>>>,
    /// Changes of Ingresses, for the writers of status and Events.
    pub ingresses: IngressChanges,
    /// The keys of the program's own ConfigMap, if it changed.
    pub keys: Option<Vec<KeyValue>>,
    /// Cost of the update.
    pub stats: Stats,
}

impl Controller {
    /// Creates a controller without any objects.
    pub fn new(options: Options) -> Self {
        Self {
            translation: Translation::new(options),
            generation: Generation(0),
            read: false,
            surveyed: false,
            complete: false,
            listening: false,
            startup_snapshot: None,
            refusals: Refusals::default(),
            config_map: None,
        }
    }

    /// Returns the state before anything has been read: default settings and listeners, so that the
    /// data plane binds at once and a busy port is reported at the start. If a ConfigMap can set
    /// bind addresses, the listeners wait until it has been read, because it may restrict the
    /// addresses.
    pub fn startup_delta(&mut self) -> Delta {
        let flags = self.translation.flags();
        let mut delta = Delta { settings: Some(flags.settings.clone()), ..Delta::default() };
        if !self.translation.may_move_listeners() {
            self.listening = true;
            delta.groups.push(Change::Put(flags.group.id.clone(), flags.group.clone()));
        }
        self.numbered(delta)
    }

    /// Applies events of all objects except referenced ones, and returns the references. Returns
    /// `None` while the references cannot be determined; [`Controller::problems`] then has the
    /// reason.
    pub fn survey(&mut self, events: Vec<Event>) -> Option<References> {
        self.translation.take(events);
        self.translation.survey();
        (!self.waits()).then(|| {
            self.surveyed = true;
            self.translation.take_references()
        })
    }

    /// Returns the delta to an earlier state, to be served until the current one is known. Returns
    /// `None` if that is already known.
    pub fn startup_snapshot(&mut self, earlier: Snapshot) -> Option<Delta> {
        if self.complete || self.startup_snapshot.is_some() {
            return None;
        }
        self.translation.take_certificates(earlier.certificates.clone());
        let group = &self.translation.flags().group;
        let keeps = |group: &ListenerGroup| self.translation.may_serve(group);
        let (startup_snapshot, delta) = StartupSnapshot::new(earlier, group, keeps);
        self.startup_snapshot = Some(startup_snapshot);
        self.listening = true;
        self.generation.0 += 1;
        Some(Delta { generation: self.generation, ..delta })
    }

    /// Applies events. `complete` means that the initial state, or the surveyed one, is now fully
    /// read. Nothing is translated before that, because an object whose Service has not been read
    /// yet is not faulty.
    pub fn update(&mut self, events: Vec<Event>, complete: bool) -> Update {
        self.translation.take(events);
        self.read |= complete;
        self.surveyed &= !complete;
        let first = !self.complete;
        if !self.read || self.surveyed || first && self.waits() {
            return Update { problems: self.take_problem_changes(), ..Update::default() };
        }
        self.complete = true;
        self.translation.problem_index().count_nodes();
        let start = (self.generation == Generation(0)).then(|| self.startup_delta());
        let (mut delta, stats) = self.translation.run();
        if let Some(start) = start {
            delta.settings = delta.settings.or(start.settings);
            delta.groups.splice(..0, start.groups);
        }
        if let Some(startup_snapshot) = self.startup_snapshot.take() {
            let flags = self.translation.flags();
            startup_snapshot.leave(&mut delta, &flags.settings, self.translation.groups());
        }
        let group = &self.translation.flags().group;
        if !std::mem::replace(&mut self.listening, true)
            && delta.groups.iter().all(|change| *change.key() != group.id)
        {
            delta.groups.push(Change::Put(group.id.clone(), group.clone()));
        }
        let references = self.translation.take_references();
        let delta = (first || !delta.is_empty()).then(|| self.numbered(delta));
        for subject in delta.iter().flat_map(|delta| self.refusals.forget(delta)) {
            self.translation.find(Finder::Plane(subject), Vec::new());
        }
        let names = self.translation.take_names();
        let ingresses = IngressChanges { first, changes: self.translation.take_ingresses() };
        let keys = self.take_keys();
        Update { delta, problems: self.take_problem_changes(), references, names, ingresses, keys, stats }
    }

    /// Returns the keys of the program's own ConfigMap, if it has changed since the last call.
    fn take_keys(&mut self) -> Option<Vec<KeyValue>> {
        let config_map = self.translation.own_config_map().cloned();
        if self.config_map.as_ref() == Some(&config_map) {
            return None;
        }
        let keys = global_settings::in_effect(config_map.as_deref());
        self.config_map = Some(config_map);
        Some(keys)
    }

    /// Records the result of a name resolution. It takes effect with the next update.
    pub fn take_name(&mut self, name: Arc<str>, resolved: Resolved) {
        self.translation.take_name(name, resolved);
    }

    /// Replaces the problems of the source. The next update reports them.
    pub fn source_finds(&mut self, problems: Vec<Problem>) {
        self.translation.find(Finder::Source, problems);
    }

    /// Replaces the problems of one duty.
    pub fn duty_finds(&mut self, duty: Duty, problems: Vec<Problem>) -> ProblemChanges {
        self.translation.find(Finder::Duty(duty), problems);
        self.take_problem_changes()
    }

    /// Processes a report of the data plane. Refusals become problems of the objects that they
    /// affect.
    pub fn report(&mut self, report: &Report) -> ProblemChanges {
        for subject in self.refusals.take(report) {
            self.translate_refusal(subject);
        }
        self.take_problem_changes()
    }

    fn translate_refusal(&mut self, subject: Subject) {
        let problem = |refusal| refusals::problems(refusal, self.translation.affected_fields(refusal));
        let problems = self.refusals.get(&subject).map(problem).unwrap_or_default();
        self.translation.find(Finder::Plane(subject), problems);
    }

    /// Translates with `object` added or replaced, and returns the resulting problems. Changes
    /// nothing. Returns `None` until the initial state has been read.
    pub fn review(&self, object: Object) -> Option<ReviewVerdict> {
        self.complete.then(|| self.translation.review(object))
    }

    /// Returns all problems, sorted, without duplicates.
    pub fn problems(&self) -> Vec<Problem> {
        self.translation.problems()
    }

    /// Returns a problem for each Service whose appProtocol applies here but not in ingress-nginx.
    pub(crate) fn app_protocol_problems(&self) -> Vec<Problem> {
        self.translation.app_protocol_problems()
    }

    /// Returns what snippets were translated to.
    pub(crate) fn snippet_translations(&self) -> Vec<SnippetTranslation> {
        self.translation.snippet_translations()
    }

    /// Returns the numbers of Ingresses that are served and that are not.
    pub(crate) fn ingress_counts(&self) -> IngressCounts {
        self.translation.ingress_counts()
    }

    fn take_problem_changes(&mut self) -> ProblemChanges {
        self.translation.problem_index().take_changes()
    }

    /// Returns the state that all deltas so far add up to.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { complete: self.complete, ..self.translation.snapshot() }
    }

    /// Returns whether the first state must wait; a problem has the reason.
    fn waits(&mut self) -> bool {
        let waits = self.translation.waits_for_classes();
        let does = waits.is_some();
        self.translation.find(Finder::Start, waits.into_iter().collect());
        does
    }

    fn numbered(&mut self, mut delta: Delta) -> Delta {
        self.generation.0 += 1;
        delta.generation = self.generation;
        delta.complete = self.complete;
        delta
    }
}
