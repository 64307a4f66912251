//! Where objects come from. Every source gives the same events: typed, pruned objects that are new or another,
//! and keys of those that are gone. What did not change gives no event.

pub mod files;
pub mod kube;
mod yaml;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_config::Problem;

use crate::store::{Object, ObjectKey, Reference};

/// One object is new, another, or gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The object is this now.
    Put(Object),
    /// There is no such object any more.
    Delete(ObjectKey),
    /// Whether IngressClasses could be listed. A source reports when they could not.
    Classes(ClassAccess),
}

/// Whether a source could list IngressClasses. What it has listed once stays known, whatever becomes of the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassAccess {
    /// It could.
    Listed,
    /// Not yet allowed: the right may be granted soon, or the API server may just be starting.
    Refused,
    /// It has been refused for so long that it must be intended.
    Withheld,
}

/// How far a source has come, each step after those above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// It reads what there was at the start; or nothing is new about its progress.
    Reading,
    /// It has not been able to read anything and does not know when it will be.
    Unreachable,
    /// Everything there is has been sent but for Secrets and ConfigMaps that objects refer to: it waits to be given, in
    /// [`References`], which ones are wanted, and says then that it is complete. A source may do so more than once.
    AllButReferred,
    /// Everything there was at the start has been sent, with this batch or earlier ones.
    Complete,
}

/// What is needed of Secrets and ConfigMaps, as changes. A source keeps nothing else of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Referred to now and not before, or for other fields.
    pub wanted: Vec<Reference>,
    /// Not referred to any more.
    pub released: Vec<ObjectKey>,
}

/// What a source found at one time. Applied as one.
#[derive(Debug)]
pub struct Batch {
    /// What changed.
    pub events: Vec<Event>,
    /// All problems of the source itself as they are now, such as files that cannot be read; `None` when they
    /// are as before.
    pub problems: Option<Vec<Problem>>,
    /// Objects of kinds that are not served, by kind, as they are now; `None` when they are as before.
    pub skipped: Option<BTreeMap<String, usize>>,
    /// How far the source has come.
    pub progress: Progress,
    /// When the source noticed.
    pub received_at: Instant,
    /// How long it read and parsed.
    pub parsing: Duration,
}

impl Batch {
    /// A source has found nothing; something else has come at this time.
    pub(crate) fn nothing_new(at: Instant) -> Self {
        Self {
            events: Vec::new(),
            problems: None,
            skipped: None,
            progress: Progress::Reading,
            received_at: at,
            parsing: Duration::ZERO,
        }
    }

    /// Takes a later one in.
    pub(crate) fn append(&mut self, next: Self) {
        self.events.extend(next.events);
        self.problems = next.problems.or(self.problems.take());
        self.skipped = next.skipped.or(self.skipped.take());
        self.progress = match next.progress {
            // What a source waits for, or has come to, is what it says last.
            Progress::AllButReferred | Progress::Complete => next.progress,
            Progress::Reading | Progress::Unreachable => self.progress.max(next.progress),
        };
        self.parsing += next.parsing;
    }
}
