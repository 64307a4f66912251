//! The control loop: receives [inputs](crate::input), translates, applies deltas, and reports
//! problems.
//!
//! It runs on its own thread, so a large change delays no request. Waiting inputs are merged and
//! applied at once; there is no timer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_config::{Delta, Problem, Report, Severity, Snapshot};
use tokio::sync::mpsc::Receiver;

use crate::controller::{Controller, Stats};
use crate::input::{Input, Review};
use crate::problem::{Duty, ProblemChanges};
use crate::store::{Batch, IngressChanges, LookedUp, Progress, References};
use crate::translate::global_settings::KeyValue;

/// Measurements of one applied change, for metrics.
#[derive(Clone, Copy, Debug)]
pub struct Applied {
    /// Numbers of recomputed nodes.
    pub stats: Stats,
    /// Number of events.
    pub events: usize,
    /// Time that the source took to read and parse.
    pub parsing: Duration,
    /// Time of the translation.
    pub translating: Duration,
    /// Time that the data plane took to apply the delta.
    pub applying: Duration,
    /// Time from the event at the source until the change is in force.
    pub total: Duration,
}

/// Callbacks of the control loop. Each is optional.
pub trait Observe {
    /// Called when a change is in force.
    fn applied(&mut self, applied: &Applied) {
        let _ = applied;
    }

    /// Called when problems appear or disappear.
    fn problems(&mut self, changes: &ProblemChanges) {
        let _ = changes;
    }

    /// Called with the current objects of unsupported kinds, by kind.
    fn skipped(&mut self, kinds: &BTreeMap<String, usize>) {
        let _ = kinds;
    }

    /// Called when the set of referenced Secrets and ConfigMaps changes; for the source.
    fn references(&mut self, changes: References) {
        let _ = changes;
    }

    /// Called with changes of Ingresses; for the writers of status and Events.
    fn ingresses(&mut self, changes: IngressChanges) {
        let _ = changes;
    }

    /// Called with the keys of the program's own ConfigMap when it changes.
    fn keys(&mut self, keys: Vec<KeyValue>) {
        let _ = keys;
    }

    /// Called with the complete set of names to resolve.
    fn names(&mut self, names: BTreeSet<Arc<str>>) {
        let _ = names;
    }

    /// Called if the source is unreachable at the start. Returns the state to serve meanwhile, if
    /// any.
    fn startup_snapshot(&mut self) -> Option<Snapshot> {
        None
    }
}

/// An observer that ignores all callbacks.
impl Observe for () {}

/// Runs until the source ends. Applies the start-up delta first, so that ports are bound before
/// anything has been read. Blocks the calling thread.
pub fn run(
    controller: Controller,
    mut inputs: Receiver<Input>,
    apply: impl FnMut(Delta) -> Report,
    observe: &mut impl Observe,
) {
    let mut control = Control { controller, apply, observe, asked: false, surveyed: 0 };
    control.start();
    while let Some(first) = inputs.blocking_recv() {
        let mut gathered = Gathered::default();
        gathered.add(first);
        while let Ok(next) = inputs.try_recv() {
            gathered.add(next);
        }
        for report in &gathered.reports {
            control.report(report);
        }
        for (duty, problems) in gathered.findings {
            control.found(duty, problems);
        }
        let at = gathered.names.first().map(|looked_up| looked_up.at);
        for LookedUp { name, resolved, .. } in gathered.names {
            control.controller.take_name(name, resolved);
        }
        match (gathered.batch, at) {
            (Some(batch), _) => control.take(batch),
            (None, Some(at)) => control.take(Batch::nothing_new(at)),
            (None, None) => {}
        }
        for review in gathered.reviews {
            review.answer(&control.controller);
        }
    }
}

/// Merged inputs.
#[derive(Default)]
struct Gathered {
    reports: Vec<Report>,
    /// All batches, merged.
    batch: Option<Batch>,
    names: Vec<LookedUp>,
    reviews: Vec<Review>,
    /// The last problems of each duty.
    findings: BTreeMap<Duty, Vec<Problem>>,
}

impl Gathered {
    fn add(&mut self, input: Input) {
        match input {
            Input::Report(report) => self.reports.push(report),
            Input::Name(looked_up) => self.names.push(looked_up),
            Input::Review(review) => self.reviews.push(review),
            Input::Finding(duty, problems) => drop(self.findings.insert(duty, problems)),
            Input::Batch(next) => match &mut self.batch {
                Some(batch) => batch.append(next),
                None => self.batch = Some(next),
            },
        }
    }
}

/// State of the control loop.
struct Control<'a, A, O> {
    controller: Controller,
    apply: A,
    observe: &'a mut O,
    /// Whether the source waits for the list of referenced Secrets and ConfigMaps.
    asked: bool,
    /// Number of events that had been applied when it received the list.
    surveyed: usize,
}

impl<A: FnMut(Delta) -> Report, O: Observe> Control<'_, A, O> {
    fn start(&mut self) {
        let delta = self.controller.startup_delta();
        self.apply(delta, &ProblemChanges::default());
    }

    /// Applies a batch of a source and sends the result to the data plane.
    fn take(&mut self, mut batch: Batch) {
        if let Some(skipped) = &batch.skipped {
            self.observe.skipped(skipped);
        }
        if batch.progress == Progress::Unreachable
            && let Some(earlier) = self.observe.startup_snapshot()
            && let Some(delta) = self.controller.startup_snapshot(earlier)
        {
            self.apply(delta, &ProblemChanges::default());
        }
        self.asked |= batch.progress == Progress::AllButReferred;
        let events = batch.events.len();
        if self.asked
            && let Some(references) = self.controller.survey(std::mem::take(&mut batch.events))
        {
            self.asked = false;
            self.observe.references(references);
            self.surveyed += events;
        }
        if let Some(problems) = batch.problems {
            self.controller.source_finds(problems);
        }
        let begin = Instant::now();
        let update = self.controller.update(batch.events, batch.progress == Progress::Complete);
        let translating = begin.elapsed();
        // New problems are visible as soon as the gateway is ready, so they are reported before the
        // delta is applied. A problem is resolved only once its repair is in force.
        let (appeared, resolved) = update.problems.split();
        report_changes(&appeared, self.observe);
        if update.references != References::default() {
            self.observe.references(update.references);
        }
        if let Some(names) = update.names {
            self.observe.names(names);
        }
        if update.ingresses.first || !update.ingresses.changes.is_empty() {
            self.observe.ingresses(update.ingresses);
        }
        if let Some(keys) = update.keys {
            self.observe.keys(keys);
        }
        let Some(delta) = update.delta else {
            report_changes(&resolved, self.observe);
            return;
        };
        let events = events + std::mem::take(&mut self.surveyed);
        let generation = delta.generation;
        let begin = Instant::now();
        self.apply(delta, &resolved);
        let applied = Applied {
            stats: update.stats,
            events,
            parsing: batch.parsing,
            translating,
            applying: begin.elapsed(),
            total: batch.received_at.elapsed(),
        };
        tracing::debug!(
            %generation, events, parsing = ?applied.parsing, translating = ?applied.translating,
            applying = ?applied.applying, total = ?applied.total, "applied"
        );
        self.observe.applied(&applied);
    }

    /// Applies `delta`, which repairs what `resolved` lists.
    fn apply(&mut self, delta: Delta, resolved: &ProblemChanges) {
        let report = (self.apply)(delta);
        report_changes(resolved, self.observe);
        self.report(&report);
    }

    fn found(&mut self, duty: Duty, problems: Vec<Problem>) {
        report_changes(&self.controller.duty_finds(duty, problems), self.observe);
    }

    fn report(&mut self, report: &Report) {
        report_changes(&self.controller.report(report), self.observe);
    }
}

/// Logs changes of the problems and passes them to the observer.
fn report_changes(changes: &ProblemChanges, observe: &mut impl Observe) {
    if changes.is_empty() {
        return;
    }
    for problem in &changes.appeared {
        match problem.severity {
            Severity::Error => tracing::error!("{problem}"),
            Severity::Warning => tracing::warn!("{problem}"),
        }
    }
    for problem in &changes.resolved {
        tracing::info!("resolved: {problem}");
    }
    observe.problems(changes);
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::time::Instant;

    use sluice_config::{Code, Generation, NamespacedName, ObjectRef, Refusal, Subject};
    use tokio::sync::mpsc::Sender;
    use tokio::sync::oneshot;

    use super::*;
    use crate::input;
    use crate::options::Options;
    use crate::problem::error;
    use crate::store::{Object, Service};

    #[derive(Default)]
    struct Seen {
        problems: Vec<(usize, usize)>,
        applied: Vec<usize>,
        skipped: usize,
    }

    impl Observe for Seen {
        fn applied(&mut self, applied: &Applied) {
            self.applied.push(applied.events);
        }

        fn problems(&mut self, changes: &ProblemChanges) {
            self.problems.push((changes.appeared.len(), changes.resolved.len()));
        }

        fn skipped(&mut self, kinds: &BTreeMap<String, usize>) {
            self.skipped = kinds.values().sum();
        }
    }

    fn batch(complete: bool, problems: Option<Vec<Problem>>) -> Batch {
        Batch {
            events: Vec::new(),
            problems,
            skipped: complete.then(|| BTreeMap::from([("Deployment.apps".to_owned(), 3)])),
            progress: if complete { Progress::Complete } else { Progress::Reading },
            received_at: Instant::now(),
            parsing: Duration::ZERO,
        }
    }

    #[test]
    fn ports_first_then_everything_at_once_with_problems_of_all_sides() {
        let (sender, inputs) = input::channel();
        let problem = error(
            Code::ManifestInvalid,
            &ObjectRef::new("File", "", "a.yaml"),
            "line 1",
            "broken",
            "correct the file",
        );
        sender.try_send(Input::Batch(batch(false, Some(vec![problem])))).unwrap();
        sender.try_send(Input::Batch(batch(true, None))).unwrap();
        drop(sender);
        let mut deltas = Vec::new();
        let mut seen = Seen::default();
        let apply = |delta: Delta| {
            let refused = match delta.complete {
                false => Vec::new(),
                true => vec![Refusal {
                    subject: Subject::Certificate(NamespacedName::new("shop", "tls")),
                    origin: None,
                    code: Code::CertificateRefused,
                    reason: "too odd".into(),
                }],
            };
            let report = Report::Applied {
                generation: delta.generation,
                took: Duration::ZERO,
                refused,
                accepted: Vec::new(),
            };
            deltas.push(delta);
            report
        };
        run(Controller::new(Options::default()), inputs, apply, &mut seen);
        assert_eq!(deltas.len(), 2, "what has piled up is applied once");
        assert!(!deltas[0].complete && deltas[0].settings.is_some() && deltas[0].groups.len() == 1);
        assert!(deltas[1].complete);
        assert_eq!(deltas[1].generation.0, 2);
        assert_eq!(
            (seen.problems, seen.applied, seen.skipped),
            (vec![(1, 0), (1, 0)], vec![0], 3),
            "once before it is in force, once for the refusal"
        );
    }

    /// Records the order of deltas and reports, and sends the second batch after the first report.
    struct Order<'a> {
        steps: &'a RefCell<Vec<&'static str>>,
        next: Option<(Sender<Input>, Batch)>,
    }

    impl Observe for Order<'_> {
        fn problems(&mut self, changes: &ProblemChanges) {
            let mut steps = self.steps.borrow_mut();
            steps.extend(changes.appeared.iter().map(|_| "appeared"));
            steps.extend(changes.resolved.iter().map(|_| "resolved"));
            if let Some((sender, batch)) = self.next.take() {
                sender.try_send(Input::Batch(batch)).unwrap();
            }
        }
    }

    #[test]
    fn a_problem_was_reported_as_resolved_before_its_repair_was_in_force() {
        let (sender, inputs) = input::channel();
        let file = ObjectRef::new("File", "", "a.yaml");
        let problem = error(Code::ManifestInvalid, &file, "line 1", "broken", "correct the file");
        sender.try_send(Input::Batch(batch(false, Some(vec![problem])))).unwrap();
        let steps = RefCell::default();
        let mut order = Order { steps: &steps, next: Some((sender, batch(true, Some(Vec::new())))) };
        let apply = |delta: Delta| {
            steps.borrow_mut().push("applied");
            let (generation, took) = (delta.generation, Duration::ZERO);
            Report::Applied { generation, took, refused: Vec::new(), accepted: Vec::new() }
        };
        run(Controller::new(Options::default()), inputs, apply, &mut order);
        assert_eq!(*steps.borrow(), ["applied", "appeared", "applied", "resolved"]);
    }

    #[test]
    fn a_review_sees_all_inputs_before_it() {
        let (sender, inputs) = input::channel();
        let object = || {
            let name = NamespacedName::new("shop", "web");
            let (identity, ports, udp_ports) = Default::default();
            Object::Service(Arc::new(Service {
                name,
                identity,
                external_name: None,
                cluster_ip: None,
                ports,
                udp_ports,
            }))
        };
        let review = || {
            let (reply, answer) = oneshot::channel();
            (Input::Review(Review { object: object(), reply }), answer)
        };
        let applies = |delta: Delta| {
            let generation = delta.generation;
            Report::Applied { generation, took: Duration::ZERO, refused: Vec::new(), accepted: Vec::new() }
        };
        let (first, early) = review();
        sender.try_send(first).unwrap();
        drop(sender);
        run(Controller::new(Options::default()), inputs, applies, &mut ());
        assert!(early.blocking_recv().unwrap().is_none(), "not everything is known");

        let (sender, inputs) = input::channel();
        let (second, answer) = review();
        let refused = vec![Refusal {
            subject: Subject::GlobalSettings,
            origin: None,
            code: Code::PartRefused,
            reason: "too odd".into(),
        }];
        let (generation, took) = (Generation(1), Duration::ZERO);
        let report = Report::Applied { generation, took, refused, accepted: Vec::new() };
        for input in [second, Input::Report(report), Input::Batch(batch(true, None))] {
            sender.try_send(input).unwrap();
        }
        drop(sender);
        let mut seen = Seen::default();
        run(Controller::new(Options::default()), inputs, applies, &mut seen);
        assert!(answer.blocking_recv().unwrap().unwrap().problems.is_empty());
        assert_eq!(seen.problems, [(1, 0)], "what is refused is a problem");
    }
}
