//! Messages between sources and the control loop: batches of changed objects, and the set of
//! referenced Secrets and ConfigMaps.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_config::Problem;

use super::kind::ObjectKey;
use super::object::Object;
use super::reference::Reference;

/// A change of one object or of the access to a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The object is new or changed.
    Put(Object),
    /// The object was deleted.
    Delete(ObjectKey),
    /// Access to IngressClasses. A source reports it if listing them failed.
    Classes(ClassAccess),
}

/// Access of a source to IngressClasses. Classes that were listed stay known if access is lost
/// later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassAccess {
    /// Listing succeeded.
    Listed,
    /// Listing is refused, possibly temporarily: access may be granted soon, or the API server may
    /// be starting.
    Refused,
    /// Listing has been refused for so long that it must be intended.
    Withheld,
}

/// The progress of a source, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// The source reads the initial state, or its progress is unchanged.
    Reading,
    /// The source has read nothing and cannot tell when it will.
    Unreachable,
    /// The source has sent everything but the referenced Secrets and ConfigMaps. It waits for
    /// [`References`], then reports completion. A source may do so more than once.
    AllButReferred,
    /// The initial state has been sent, with this batch or earlier ones.
    Complete,
}

/// Changes of the set of referenced Secrets and ConfigMaps. A source keeps only these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// New references, or references to other fields.
    pub wanted: Vec<Reference>,
    /// Objects that are no longer referenced.
    pub released: Vec<ObjectKey>,
}

/// Events and problems of a source. Applied as one.
#[derive(Debug)]
pub struct Batch {
    /// Events.
    pub events: Vec<Event>,
    /// All current problems of the source itself, such as unreadable files; `None` if unchanged.
    pub problems: Option<Vec<Problem>>,
    /// Current objects of unsupported kinds, by kind; `None` if unchanged.
    pub skipped: Option<BTreeMap<String, usize>>,
    /// Progress of the source.
    pub progress: Progress,
    /// Time at which the source received the change.
    pub received_at: Instant,
    /// Time that reading and parsing took.
    pub parsing: Duration,
}

impl Batch {
    /// Returns an empty batch, for other changes at this time.
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

    /// Appends a later batch.
    pub(crate) fn append(&mut self, next: Self) {
        self.events.extend(next.events);
        self.problems = next.problems.or(self.problems.take());
        self.skipped = next.skipped.or(self.skipped.take());
        self.progress = match next.progress {
            // The last progress of a source applies.
            Progress::AllButReferred | Progress::Complete => next.progress,
            Progress::Reading | Progress::Unreachable => self.progress.max(next.progress),
        };
        self.parsing += next.parsing;
    }
}
