//! The control plane as a value: events in, deltas and problems out. Synchronous, and without any effect but
//! on its own state; [`run()`](crate::run()) connects it to a source and a data plane.

use sluice_config::{Change, Delta, Generation, Problem, Snapshot};

use crate::options::Options;
use crate::source::Event;
pub use crate::translate::Stats;
use crate::translate::Translation;

/// The control plane.
pub struct Controller {
    translation: Translation,
    generation: Generation,
    complete: bool,
}

/// What an update came to.
#[derive(Debug, Default)]
pub struct Update {
    /// What the data plane has to be told, if anything.
    pub delta: Option<Delta>,
    /// Whether [`Controller::problems`] are others than before.
    pub problems_changed: bool,
    /// What it cost.
    pub stats: Stats,
}

impl Controller {
    /// Knows nothing yet.
    pub fn new(options: Options) -> Self {
        Self { translation: Translation::new(options), generation: Generation(0), complete: false }
    }

    /// What holds before anything has been read: ports and default settings, so that the data plane can bind
    /// at once.
    pub fn startup_delta(&mut self) -> Delta {
        let flags = self.translation.flags();
        let delta = Delta {
            tuning: Some(flags.tuning.clone()),
            groups: vec![Change::Put(flags.group.id.clone(), flags.group.clone())],
            ..Delta::default()
        };
        self.numbered(delta)
    }

    /// Takes events in. `complete` says that with them everything is known that there was at the start; until
    /// then nothing is translated, because an object whose Service has not been read yet is not wrong.
    pub fn update(&mut self, events: Vec<Event>, complete: bool) -> Update {
        self.translation.take(events);
        let first = complete && !self.complete;
        self.complete |= complete;
        if !self.complete {
            return Update::default();
        }
        let start = (self.generation == Generation(0)).then(|| self.startup_delta());
        let (mut delta, stats) = self.translation.run();
        if let Some(start) = start {
            delta.tuning = delta.tuning.or(start.tuning);
            delta.groups.splice(..0, start.groups);
        }
        let problems_changed = self.translation.take_problems_changed() || first;
        let delta = (first || !delta.is_empty()).then(|| self.numbered(delta));
        Update { delta, problems_changed, stats }
    }

    /// All problems of the objects, sorted, each once. Those of the source are the source's.
    pub fn problems(&self) -> Vec<Problem> {
        self.translation.problems()
    }

    /// Everything the data plane has been told.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { complete: self.complete, ..self.translation.snapshot() }
    }

    fn numbered(&mut self, mut delta: Delta) -> Delta {
        self.generation.0 += 1;
        delta.generation = self.generation;
        delta.complete = self.complete;
        delta
    }
}
