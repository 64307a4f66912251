//! Detection of changed files without reading them.

use std::fs;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

/// Upper bound for the resolution of file system clocks (10 ms at 100 ticks per second). Two
/// changes within it may have the same stamp.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// The state of a file by its metadata. The default is the stamp of a file whose metadata cannot be
/// read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamp {
    /// Device and inode.
    identity: (u64, u64),
    /// Identity, size and times, hashed.
    state: u64,
    /// Whether the file has not just changed: no other state has this stamp.
    is_settled: bool,
}

impl Stamp {
    /// Returns the stamp of a file that has this metadata now.
    pub(super) fn of(metadata: &fs::Metadata, now: SystemTime) -> Self {
        let identity = (metadata.dev(), metadata.ino());
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        let state = (identity, metadata.size(), modified, changed);
        let state = BuildHasherDefault::<DefaultHasher>::default().hash_one(state);
        Self { identity, state, is_settled: !changed_within(TICK, metadata, now) }
    }

    /// Returns whether the file has certainly not changed since `earlier`.
    pub(super) fn is_still(&self, earlier: &Self) -> bool {
        self.is_settled && earlier.is_settled && self.state == earlier.state
    }

    /// Returns whether no change since `earlier` is visible.
    pub(super) fn looks_like(&self, earlier: &Self) -> bool {
        self.state == earlier.state
    }

    /// Returns whether this is the file of `earlier`, so that a difference was written in place.
    pub(super) fn is_same_file(&self, earlier: &Self) -> bool {
        self.identity == earlier.identity
    }
}

/// Returns whether a file has changed within `time`. Times in the future stem from another machine
/// and are ignored.
pub(super) fn changed_within(time: Duration, metadata: &fs::Metadata, now: SystemTime) -> bool {
    let (seconds, nanos) = (metadata.ctime().try_into(), metadata.ctime_nsec().try_into());
    let (Ok(seconds), Ok(nanos)) = (seconds, nanos) else { return false };
    now.duration_since(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos)).is_ok_and(|age| age < time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_that_two_states_may_share_does_not_hold() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let metadata = file.as_file().metadata().unwrap();
        let changed = SystemTime::UNIX_EPOCH
            + Duration::new(metadata.ctime().try_into().unwrap(), metadata.ctime_nsec().try_into().unwrap());
        let at = |now| Stamp::of(&metadata, now);
        let settled = at(changed + TICK);
        for early in [at(changed), at(changed + TICK / 2)] {
            assert!(!early.is_still(&early) && !settled.is_still(&early));
            assert!(settled.looks_like(&early) && settled.is_same_file(&early));
        }
        assert!(settled.is_still(&settled) && at(changed + TICK * 2).is_still(&settled));
        assert!(at(changed - TICK).is_still(&settled), "a clock that is not ours");
    }
}
