//! The control plane as a value: events in, deltas and problems out. Synchronous, and without any effect but
//! on its own state; [`run()`](crate::run()) connects it to a source and a data plane.

use std::collections::BTreeSet;
use std::sync::Arc;

use sluice_config::{Change, Delta, Generation, Problem, Report, Snapshot, Subject};

use crate::duties::Duty;
use crate::names::Resolved;
use crate::options::Options;
use crate::problem::{Finder, ProblemChanges};
use crate::refusals::{self, Refusals};
use crate::source::{Event, References};
use crate::stand_in::StandIn;
use crate::status::IngressChanges;
use crate::store::Object;
use crate::translate::Translation;
pub use crate::translate::{Stats, Verdict};

/// The control plane.
pub struct Controller {
    translation: Translation,
    generation: Generation,
    /// Whether everything is known that there was at the start.
    read: bool,
    /// Whether the source was told what is referred to, and has not yet said that it has sent it.
    surveyed: bool,
    /// Whether the first state of that has been given out.
    complete: bool,
    /// Whether the data plane has been told where to listen.
    listening: bool,
    stand_in: Option<StandIn>,
    refusals: Refusals,
}

/// What an update came to.
#[derive(Debug, Default)]
pub struct Update {
    /// What the data plane has to be told, if anything.
    pub delta: Option<Delta>,
    /// How the problems differ from when this was last told.
    pub problems: ProblemChanges,
    /// What is needed of Secrets and ConfigMaps that was not, or is no more.
    pub references: References,
    /// The names that are to be looked up, if they are others than before.
    pub names: Option<BTreeSet<Arc<str>>>,
    /// What has become of Ingresses, for those who write to them.
    pub ingresses: IngressChanges,
    /// What it cost.
    pub stats: Stats,
}

impl Controller {
    /// Knows nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            translation: Translation::new(options),
            generation: Generation(0),
            read: false,
            surveyed: false,
            complete: false,
            listening: false,
            stand_in: None,
            refusals: Refusals::default(),
        }
    }

    /// What holds before anything has been read: default settings, and ports, so that the data plane can bind
    /// at once and a busy port is known at the start. Where a ConfigMap may still say on which addresses to listen,
    /// that waits until it has been read: it may keep an address from the world, or leave it to another program.
    pub fn startup_delta(&mut self) -> Delta {
        let flags = self.translation.flags();
        let mut delta = Delta { tuning: Some(flags.tuning.clone()), ..Delta::default() };
        if !self.translation.may_move_listeners() {
            self.listening = true;
            delta.groups.push(Change::Put(flags.group.id.clone(), flags.group.clone()));
        }
        self.numbered(delta)
    }

    /// Takes events in, of everything but what objects refer to, and says what of that is wanted; nothing while that cannot be
    /// told, which [`Controller::problems`] gives the reason for.
    pub fn survey(&mut self, events: Vec<Event>) -> Option<References> {
        self.translation.take(events);
        self.translation.survey();
        (!self.waits()).then(|| {
            self.surveyed = true;
            self.translation.take_references()
        })
    }

    /// What brings the data plane to an earlier state, to be served until the present one is known. Nothing
    /// when that is known already.
    pub fn stand_in(&mut self, earlier: Snapshot) -> Option<Delta> {
        if self.complete || self.stand_in.is_some() {
            return None;
        }
        let (stand_in, delta) = StandIn::new(earlier, &self.translation.flags().group);
        self.stand_in = Some(stand_in);
        self.listening = true;
        self.generation.0 += 1;
        Some(Delta { generation: self.generation, ..delta })
    }

    /// Takes events in. `complete` says that with them everything is known that there was at the start, or that was
    /// surveyed; until then nothing is translated, because an object whose Service has not been read yet is not wrong.
    pub fn update(&mut self, events: Vec<Event>, complete: bool) -> Update {
        self.translation.take(events);
        self.read |= complete;
        self.surveyed &= !complete;
        let first = !self.complete;
        if !self.read || self.surveyed || first && self.waits() {
            return Update { problems: self.take_problem_changes(), ..Update::default() };
        }
        self.complete = true;
        self.translation.book().count_nodes();
        let start = (self.generation == Generation(0)).then(|| self.startup_delta());
        let (mut delta, stats) = self.translation.run();
        if let Some(start) = start {
            delta.tuning = delta.tuning.or(start.tuning);
            delta.groups.splice(..0, start.groups);
        }
        if let Some(stand_in) = self.stand_in.take() {
            let flags = self.translation.flags();
            stand_in.leave(&mut delta, &flags.tuning, &flags.group);
        }
        if !std::mem::replace(&mut self.listening, true) && delta.groups.is_empty() {
            let group = &self.translation.flags().group;
            delta.groups.push(Change::Put(group.id.clone(), group.clone()));
        }
        let references = self.translation.take_references();
        let delta = (first || !delta.is_empty()).then(|| self.numbered(delta));
        for subject in delta.iter().flat_map(|delta| self.refusals.forget(delta)) {
            self.translation.find(Finder::Plane(subject), Vec::new());
        }
        let names = self.translation.take_names();
        let ingresses = IngressChanges { first, changes: self.translation.take_ingresses() };
        Update { delta, problems: self.take_problem_changes(), references, names, ingresses, stats }
    }

    /// Takes in what a name was resolved to; it counts with the next update.
    pub fn take_name(&mut self, name: Arc<str>, resolved: Resolved) {
        self.translation.take_name(name, resolved);
    }

    /// What the source finds wrong now, in place of what it found before. To be told with the next update.
    pub fn source_finds(&mut self, problems: Vec<Problem>) {
        self.translation.find(Finder::Source, problems);
    }

    /// What one of the controller's duties finds wrong now, in place of what it found before.
    pub fn duty_finds(&mut self, duty: Duty, problems: Vec<Problem>) -> ProblemChanges {
        self.translation.find(Finder::Duty(duty), problems);
        self.take_problem_changes()
    }

    /// Takes in what the data plane says. What it refuses reaches the objects that it concerns.
    pub fn report(&mut self, report: &Report) -> ProblemChanges {
        for subject in self.refusals.take(report) {
            self.translate_refusal(subject);
        }
        self.take_problem_changes()
    }

    fn translate_refusal(&mut self, subject: Subject) {
        let problem = |refusal| refusals::problems(refusal, self.translation.concerned(refusal));
        let problems = self.refusals.get(&subject).map(problem).unwrap_or_default();
        self.translation.find(Finder::Plane(subject), problems);
    }

    /// What would be wrong if this object were there, in place of the one of its name if there is one. Changes nothing.
    /// No verdict before everything is known that there was at the start.
    pub fn review(&self, object: Object) -> Option<Verdict> {
        self.complete.then(|| self.translation.review(object))
    }

    /// All problems, sorted, each once.
    pub fn problems(&self) -> Vec<Problem> {
        self.translation.problems()
    }

    /// Services whose appProtocol is obeyed here and ignored by ingress-nginx.
    pub(crate) fn obeyed_app_protocols(&self) -> Vec<Problem> {
        self.translation.obeyed_app_protocols()
    }

    fn take_problem_changes(&mut self) -> ProblemChanges {
        self.translation.book().take_changes()
    }

    /// Everything the data plane has been told.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { complete: self.complete, ..self.translation.snapshot() }
    }

    /// Whether the first state cannot be given out yet; a problem says why.
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
