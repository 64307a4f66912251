//! Detection of changed files without reading them.

use std::fs;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

/// Upper bound for the resolution of file system clocks (10 ms at 100 ticks per second). Two
/// changes within it may have the same stamp.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// Stamp of a file that the next comparison must read again, because several states may share it.
pub(super) const UNSETTLED: u64 = 0;

/// Returns a number that differs between states of a file, or [`UNSETTLED`] if the file has just
/// changed.
pub(super) fn stamp(metadata: &fs::Metadata, now: SystemTime) -> u64 {
    if changed_within(TICK, metadata, now) {
        return UNSETTLED;
    }
    let modified = (metadata.mtime(), metadata.mtime_nsec());
    let changed = (metadata.ctime(), metadata.ctime_nsec());
    let state = (metadata.dev(), metadata.ino(), metadata.size(), modified, changed);
    BuildHasherDefault::<DefaultHasher>::default().hash_one(state).max(UNSETTLED + 1)
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
        assert_eq!(stamp(&metadata, changed), UNSETTLED);
        assert_eq!(stamp(&metadata, changed + TICK / 2), UNSETTLED);
        let settled = stamp(&metadata, changed + TICK);
        assert_ne!(settled, UNSETTLED);
        assert_eq!(stamp(&metadata, changed + TICK * 2), settled);
        assert_eq!(stamp(&metadata, changed - TICK), settled, "a clock that is not ours");
    }
}
