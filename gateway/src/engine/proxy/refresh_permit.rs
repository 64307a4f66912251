//! The limit of refreshes: requests that fetch a stale response again.

use std::cell::Cell;

/// Maximum number of refreshes in progress, per worker. Beyond it, the request that finds a stale
/// response fetches it for its client.
const MOST_REFRESHES: usize = 64;

thread_local! {
    /// Refreshes of this worker in progress.
    static REFRESHES: Cell<usize> = const { Cell::new(0) };
}

/// Permission for one refresh.
#[derive(Debug)]
pub(super) struct RefreshPermit(());

impl RefreshPermit {
    pub(super) fn take() -> Option<Self> {
        let taken = REFRESHES.get();
        (taken < MOST_REFRESHES).then(|| {
            REFRESHES.set(taken + 1);
            Self(())
        })
    }
}

impl Drop for RefreshPermit {
    fn drop(&mut self) {
        REFRESHES.set(REFRESHES.get().saturating_sub(1));
    }
}
