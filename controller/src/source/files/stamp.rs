//! What tells that a file has changed, without reading it.

use std::fs;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

/// The clocks of file systems stand still for so long at most (10 ms at 100 ticks a second): two changes within that may have
/// the same stamp.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// The stamp of a file that the next look has to read again. It may be that of several states.
pub(super) const UNSETTLED: u64 = 0;

/// What differs between two states of a file, without reading it. Of a file that has changed just now it is [`UNSETTLED`].
pub(super) fn stamp(metadata: &fs::Metadata, now: SystemTime) -> u64 {
    if changed_within(TICK, metadata, now) {
        return UNSETTLED;
    }
    let modified = (metadata.mtime(), metadata.mtime_nsec());
    let changed = (metadata.ctime(), metadata.ctime_nsec());
    let state = (metadata.dev(), metadata.ino(), metadata.size(), modified, changed);
    BuildHasherDefault::<DefaultHasher>::default().hash_one(state).max(UNSETTLED + 1)
}

/// Whether a file has changed within this time. A time in the future is another machine's, and says nothing.
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
