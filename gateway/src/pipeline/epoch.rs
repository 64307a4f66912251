//! Age and use of upstream connections: `upstream-keepalive-time` and `upstream-keepalive-requests`.
//!
//! The driver's pool knows neither, but it never shares a connection between two groups. So the group carries
//! an epoch of time and one of use: a connection made in one epoch is not taken in another, and within one
//! epoch it can neither grow older nor serve more requests than the epoch holds. Epochs of time begin at
//! different moments for different addresses. The last requests of an epoch of use give their connections
//! up, so that few are left behind unused.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use sluice_config::{Tuning, UpstreamProtocol};

/// Counters; addresses that fall on one share their epochs of use, which only makes them shorter.
const SLOTS: usize = 4096;

/// Requests counted by address.
pub(crate) struct Epochs {
    uses: Box<[AtomicU32]>,
    fresh: AtomicU32,
}

/// Which pooled connections a try may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reuse {
    pub(crate) group: u64,
    /// Whether the connection may go to the pool afterwards.
    pub(crate) keep: bool,
}

impl Default for Epochs {
    fn default() -> Self {
        Self { uses: (0..SLOTS).map(|_| AtomicU32::new(0)).collect(), fresh: AtomicU32::new(0) }
    }
}

impl Epochs {
    /// For the next try at this address. `in_flight` is how many requests are on their way to it.
    pub(crate) fn next(
        &self,
        address: SocketAddr,
        protocol: UpstreamProtocol,
        tuning: &Tuning,
        in_flight: u32,
    ) -> Reuse {
        let mut hasher = DefaultHasher::new();
        address.hash(&mut hasher);
        let place = hasher.finish();
        let limit = tuning.upstream_keepalive_requests.max(1);
        let uses = self.uses[place as usize % SLOTS].fetch_add(1, Relaxed);
        let left = limit - 1 - uses % limit;
        let tail = in_flight.saturating_mul(2).min((limit - 1) / 2);
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let period = tuning.upstream_keepalive_time.as_secs().max(1);
        let age = (seconds + place % period) / period;
        Reuse { group: group(protocol, false, age, uses / limit), keep: left > tail }
    }

    /// For a try that must not use a pooled connection: the number is never used again.
    pub(crate) fn fresh(&self, protocol: UpstreamProtocol) -> Reuse {
        Reuse { group: group(protocol, true, 0, self.fresh.fetch_add(1, Relaxed)), keep: false }
    }
}

fn group(protocol: UpstreamProtocol, fresh: bool, age: u64, use_epoch: u32) -> u64 {
    let mut hasher = DefaultHasher::new();
    (protocol, fresh, age, use_epoch).hash(&mut hasher);
    hasher.finish()
}

impl std::fmt::Debug for Epochs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epochs").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const HTTP: UpstreamProtocol = UpstreamProtocol::Http;

    #[test]
    fn no_group_is_used_more_often_than_a_connection_may_be() {
        let address = "10.0.0.1:80".parse().unwrap();
        for limit in [1, 2, 7, 100] {
            let tuning = Tuning { upstream_keepalive_requests: limit, ..Tuning::default() };
            let epochs = Epochs::default();
            let mut uses = HashMap::new();
            let mut kept = 0;
            for _ in 0..1000 {
                let reuse = epochs.next(address, HTTP, &tuning, 1);
                *uses.entry(reuse.group).or_insert(0_u32) += 1;
                kept += u32::from(reuse.keep);
            }
            // The clock may have gone on to another epoch of time in between: one more group, not more uses.
            assert!(uses.values().all(|count| *count <= limit), "{limit}: {uses:?}");
            assert_eq!(kept > 0, limit > 1, "{limit}");
        }
    }

    #[test]
    fn what_concerns_trust_separates_groups() {
        let address = "10.0.0.1:80".parse().unwrap();
        let tuning = Tuning::default();
        let one = |protocol| Epochs::default().next(address, protocol, &tuning, 1).group;
        assert_ne!(one(HTTP), one(UpstreamProtocol::HttpsUnverified));
    }

    #[test]
    fn fresh_groups_are_never_met_again() {
        let epochs = Epochs::default();
        let (one, other) = (epochs.fresh(HTTP), epochs.fresh(HTTP));
        assert_ne!(one.group, other.group);
        assert!(!one.keep && !other.keep);
    }
}
