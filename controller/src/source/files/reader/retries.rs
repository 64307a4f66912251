//! Files that could not be read, and when they are read again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time until an unreadable file is read again. Doubles with each failure.
const FIRST: Duration = Duration::from_millis(100);
/// Maximum of that time.
const LONGEST: Duration = Duration::from_secs(10);

/// When a file is read again, and after what wait.
struct Retry {
    at: Instant,
    pause: Duration,
}

/// Files that could not be read.
#[derive(Default)]
pub(super) struct Retries {
    files: BTreeMap<Arc<Path>, Retry>,
}

impl Retries {
    /// Schedules the next attempt to read a file that could not be read at `now`.
    pub(super) fn failed(&mut self, name: &Arc<Path>, now: Instant) {
        let pause = self.files.get(name).map_or(FIRST, |retry| (retry.pause * 2).min(LONGEST));
        self.files.insert(name.clone(), Retry { at: now + pause, pause });
    }

    /// Removes a file that was read, or does not exist.
    pub(super) fn forget(&mut self, name: &Path) {
        self.files.remove(name);
    }

    /// Returns the files that are to be read by `now`.
    pub(super) fn due(&self, now: Instant) -> impl Iterator<Item = Arc<Path>> {
        let due = self.files.iter().filter(move |(_, retry)| retry.at <= now);
        due.map(|(name, _)| name.clone())
    }

    /// Returns the times of all next attempts.
    pub(super) fn times(&self) -> impl Iterator<Item = Instant> {
        self.files.values().map(|retry| retry.at)
    }
}
