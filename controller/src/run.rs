//! The control plane at work: takes batches from a source, translates, applies, and tells what is wrong.
//!
//! Runs on a thread of its own, so that a large change keeps no request waiting. Whatever has piled up is
//! taken together and applied once; nothing waits for a timer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_config::{Delta, Problem, Report, Severity, Snapshot};
use tokio::sync::mpsc::Receiver;

use crate::controller::{Controller, Stats};
use crate::problem::ProblemChanges;
use crate::source::{Batch, Progress, References};

/// One change from source to data plane, for metrics.
#[derive(Clone, Copy, Debug)]
pub struct Applied {
    /// Nodes that were recomputed.
    pub stats: Stats,
    /// Events that were taken in.
    pub events: usize,
    /// How long the source read and parsed.
    pub parsing: Duration,
    /// How long translation took.
    pub translating: Duration,
    /// How long the data plane took.
    pub applying: Duration,
    /// From the moment the source noticed to the moment the data plane serves it.
    pub total: Duration,
}

/// What the program wants to know while the control plane runs. All of it may be left out.
pub trait Observe {
    /// A change is in force.
    fn applied(&mut self, applied: &Applied) {
        let _ = applied;
    }

    /// Problems have come or gone.
    fn problems(&mut self, changes: &ProblemChanges) {
        let _ = changes;
    }

    /// Objects of kinds that are not served, by kind.
    fn skipped(&mut self, kinds: &BTreeMap<String, usize>) {
        let _ = kinds;
    }

    /// Something else is needed of Secrets and ConfigMaps than before: for the source.
    fn references(&mut self, changes: References) {
        let _ = changes;
    }

    /// The source cannot be reached at the start: what may be served in the meantime, if anything.
    fn stand_in(&mut self) -> Option<Snapshot> {
        None
    }
}

/// Observes nothing.
impl Observe for () {}

/// Runs until the source ends. The start-up delta is applied first, so that ports are bound before anything
/// has been read. Blocks; call it on a thread of its own.
pub fn run(
    mut controller: Controller,
    mut batches: Receiver<Batch>,
    mut apply: impl FnMut(Delta) -> Report,
    observe: &mut impl Observe,
) {
    let start = controller.startup_delta();
    tell(&controller.report(&apply(start)), observe);
    // Whether the source waits to be told which Secrets and ConfigMaps are wanted.
    let mut asked = false;
    while let Some(first) = batches.blocking_recv() {
        let mut gathered = Gathered::new(first);
        while let Ok(next) = batches.try_recv() {
            gathered.add(next);
        }
        if let Some(skipped) = &gathered.skipped {
            observe.skipped(skipped);
        }
        if gathered.progress == Progress::Unreachable
            && let Some(delta) = observe.stand_in().and_then(|earlier| controller.stand_in(earlier))
        {
            tell(&controller.report(&apply(delta)), observe);
        }
        asked |= gathered.progress == Progress::AllButReferred;
        if asked {
            let events = std::mem::take(&mut gathered.events);
            if let Some(references) = controller.survey(events) {
                asked = false;
                observe.references(references);
            }
        }
        if let Some(problems) = gathered.problems {
            controller.source_finds(problems);
        }
        let events = gathered.events.len();
        let begin = Instant::now();
        let update = controller.update(gathered.events, gathered.progress == Progress::Complete);
        let translating = begin.elapsed();
        // Before it is in force: whoever waits for readiness finds them.
        tell(&update.problems, observe);
        if update.references != References::default() {
            observe.references(update.references);
        }
        let Some(delta) = update.delta else { continue };
        let generation = delta.generation;
        let begin = Instant::now();
        let report = apply(delta);
        let applied = Applied {
            stats: update.stats,
            events,
            parsing: gathered.parsing,
            translating,
            applying: begin.elapsed(),
            total: gathered.received_at.elapsed(),
        };
        tracing::debug!(
            %generation, events, parsing = ?applied.parsing, translating = ?applied.translating,
            applying = ?applied.applying, total = ?applied.total, "applied"
        );
        tell(&controller.report(&report), observe);
        observe.applied(&applied);
    }
}

/// Batches taken together.
struct Gathered {
    events: Vec<crate::source::Event>,
    problems: Option<Vec<Problem>>,
    skipped: Option<BTreeMap<String, usize>>,
    progress: Progress,
    received_at: Instant,
    parsing: Duration,
}

impl Gathered {
    fn new(first: Batch) -> Self {
        Self {
            events: first.events,
            problems: first.problems,
            skipped: first.skipped,
            progress: first.progress,
            received_at: first.received_at,
            parsing: first.parsing,
        }
    }

    fn add(&mut self, next: Batch) {
        self.events.extend(next.events);
        self.problems = next.problems.or(self.problems.take());
        self.skipped = next.skipped.or(self.skipped.take());
        self.progress = self.progress.max(next.progress);
        self.parsing += next.parsing;
    }
}

/// Logs problems that come and go, and passes them on.
fn tell(changes: &ProblemChanges, observe: &mut impl Observe) {
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
    use std::time::Instant;

    use sluice_config::{Code, NamespacedName, ObjectRef, Refusal, Subject};
    use tokio::sync::mpsc;

    use super::*;
    use crate::options::Options;
    use crate::problem::error;

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
        let (sender, batches) = mpsc::channel(8);
        let problem = error(
            Code::ManifestInvalid,
            &ObjectRef::new("File", "", "a.yaml"),
            "line 1",
            "broken",
            "correct the file",
        );
        sender.try_send(batch(false, Some(vec![problem]))).unwrap();
        sender.try_send(batch(true, None)).unwrap();
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
            let report = Report::Applied { generation: delta.generation, took: Duration::ZERO, refused };
            deltas.push(delta);
            report
        };
        run(Controller::new(Options::default()), batches, apply, &mut seen);
        assert_eq!(deltas.len(), 2, "what has piled up is applied once");
        assert!(!deltas[0].complete && deltas[0].tuning.is_some() && deltas[0].groups.len() == 1);
        assert!(deltas[1].complete);
        assert_eq!(deltas[1].generation.0, 2);
        assert_eq!(
            (seen.problems, seen.applied, seen.skipped),
            (vec![(1, 0), (1, 0)], vec![0], 3),
            "once before it is in force, once for the refusal"
        );
    }
}
