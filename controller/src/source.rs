//! Where objects come from. Every source gives the same events: typed, pruned objects that are new or another,
//! and keys of those that are gone. What did not change gives no event.

pub mod files;
mod yaml;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_config::Problem;

use crate::store::{Object, ObjectKey};

/// One object is new, another, or gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The object is this now.
    Put(Object),
    /// There is no such object any more.
    Delete(ObjectKey),
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
    /// Whether everything there was at the start has been sent with this batch or earlier ones.
    pub initial_complete: bool,
    /// When the source noticed.
    pub received_at: Instant,
    /// How long it read and parsed.
    pub parsing: Duration,
}
