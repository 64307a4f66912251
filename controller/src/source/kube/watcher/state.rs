//! The state of a watch between two requests, which decides on the next one.

use std::time::Duration;

use crate::source::kube::failure::WatchFailure;
use crate::source::kube::known::Version;
use crate::source::kube::pacer::REFUSED;

/// Number of consecutive failures of watch requests, streamed lists included, after which lists in
/// pages replace them.
const RELIST_AFTER: u32 = 5;

/// The state of a watch between two requests.
pub(super) struct WatchState {
    /// Whether lists are streamed.
    pub(super) streaming: bool,
    /// The version from which changes are followed. `None` if a list is due.
    pub(super) position: Option<String>,
    /// Whether the API server may have been restored to an earlier version: it was away, or a watch
    /// had no event in its whole life. Such a server would send nothing until it has passed that
    /// version again.
    pub(super) doubtful: bool,
    /// Consecutive refusals.
    pub(super) refusals: u32,
    /// Consecutive failures of watch requests, whatever lists return in between.
    pub(super) watch_failures: u32,
    /// Whether the current watch request has proved that the watch works.
    pub(super) proven: bool,
    /// Whether the last event may have been a failure.
    pub(super) failed: bool,
}

/// The next request of a watch.
pub(super) enum Step {
    /// Confirms the version.
    Confirm(String),
    /// Reads a list in pages.
    List,
    /// Follows changes, after a streamed list if one is due.
    Follow,
}

impl WatchState {
    pub(super) fn new() -> Self {
        Self {
            streaming: true,
            position: None,
            doubtful: false,
            refusals: 0,
            watch_failures: 0,
            proven: false,
            // An earlier task of the same watch may have reported a failure that ends now.
            failed: true,
        }
    }

    /// Returns the next request.
    pub(super) fn step(&self) -> Step {
        match &self.position {
            Some(position) if self.doubtful => Step::Confirm(position.clone()),
            None if !self.streaming || self.watch_failures >= RELIST_AFTER => Step::List,
            _ => Step::Follow,
        }
    }

    /// Counts a failure of a watch request. After several a list is due, as otherwise no change
    /// would be seen. Returns the wait before it.
    pub(super) fn watch_failed(&mut self, failure: &WatchFailure) -> Duration {
        match failure {
            WatchFailure::Away | WatchFailure::Refused(_) | WatchFailure::Expired | WatchFailure::Rewound => {
                self.watch_failures = self.watch_failures.saturating_add(1)
            }
            // With a problem of its own, or followed by lists in pages.
            WatchFailure::Forbidden(_)
            | WatchFailure::Unauthorized
            | WatchFailure::NoKind
            | WatchFailure::NoStreaming => return Duration::ZERO,
        }
        if self.watch_failures < RELIST_AFTER {
            return Duration::ZERO;
        }
        self.position = None;
        REFUSED.wait(self.watch_failures)
    }

    /// Records the version up to which changes are known. Within a watch versions only increase.
    pub(super) fn advance(&mut self, version: String) -> Result<(), WatchFailure> {
        if let Some(position) = &self.position {
            if Version::of(&version).is_before(Version::of(position)) {
                return Err(WatchFailure::Rewound);
            }
            self.position = Some(version);
        }
        Ok(())
    }
}
