//! How many client connections the limit of open files carries.
//!
//! Every client may need a connection to an endpoint, and without descriptors to spare the probes of the kubelet
//! would go unanswered just when the program is busiest. So clients get no more than three quarters, and one beyond
//! that is closed at once, as with `max-worker-connections`. Not half: most of many clients are idle.

use rustix::process::{Resource, getrlimit};

use crate::descriptors::Shares;

/// Descriptors that are kept for listeners, probes, scrapes, logs, files, and the pool of idle connections.
const RESERVE: u64 = 128;

/// Client connections that the process has descriptors for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity(Option<usize>);

impl Capacity {
    /// By the limit that is in force now.
    pub(crate) fn of_process() -> Self {
        Self::of(getrlimit(Resource::Nofile).current)
    }

    /// `None` is no limit.
    fn of(descriptors: Option<u64>) -> Self {
        Self(descriptors.map(|all| {
            let most = (all / 4 * 3).min(all.saturating_sub(RESERVE)).max(1);
            usize::try_from(most).unwrap_or(usize::MAX)
        }))
    }

    /// The number of connections to admit where `configured` are allowed; 0 is no limit in both. What connections to
    /// endpoints have taken of the clients' share is not there to be given.
    pub(crate) fn within(self, configured: usize) -> usize {
        let now = Shares::of_process().clients_now();
        match (self.0.map(|most| most.min(now)), configured) {
            (None, configured) => configured,
            (Some(most), 0) => most,
            (Some(most), configured) => most.min(configured),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_of_both_limits_holds() {
        assert_eq!(Capacity::of(Some(1024)).within(16384), 768);
        assert_eq!(Capacity::of(Some(1024)).within(0), 768);
        assert_eq!(Capacity::of(Some(256)).within(0), 128, "the reserve is kept");
        assert_eq!(Capacity::of(Some(1024)).within(100), 100);
        assert_eq!(Capacity::of(None).within(0), 0, "no limit at all");
        assert_eq!(Capacity::of(None).within(16384), 16384);
    }

    #[test]
    fn a_limit_below_the_reserve_still_serves_somebody() {
        assert_eq!(Capacity::of(Some(20)).within(0), 1);
    }
}
