//! Age and use of upstream connections: `upstream-keepalive-time` and
//! `upstream-keepalive-requests`.
//!
//! Pingora's pool supports neither, but it never shares a connection between two groups. The group
//! therefore contains an epoch of time and one of use: a connection from one epoch is not used in
//! another, so it becomes no older and serves no more requests than an epoch allows. Epochs of time
//! begin at different moments for different addresses. The last requests of an epoch of use do not
//! return their connections to the pool, so that few are left unused.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::pipeline::Upstream;
use crate::upstream::trust::TrustKey;

/// Number of counters. Addresses that share one share their epochs of use, which makes them
/// shorter.
const SLOTS: usize = 4096;

/// Requests counted by address.
pub(super) struct Epochs {
    /// Number of idle connections that the pool may keep.
    pool: usize,
    uses: Box<[AtomicU32]>,
    fresh: AtomicU32,
}

/// Which pooled connections an attempt may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reuse {
    pub(super) group: u64,
    /// Whether the connection may return to the pool.
    pub(super) keep: bool,
}

impl Epochs {
    /// Creates the counters for a pool of this size.
    pub(super) fn new(pool: usize) -> Self {
        Self { pool, uses: (0..SLOTS).map(|_| AtomicU32::new(0)).collect(), fresh: AtomicU32::new(0) }
    }

    /// Returns the group for one attempt. An attempt that needs a new connection gets a group that
    /// is never used again. So does a request that must be sent only once: Pingora does not report
    /// whether the endpoint received it before a connection broke.
    pub(super) fn next(&self, upstream: &Upstream) -> Reuse {
        let Upstream { address, membership, fresh, repeatable, keep_alive, in_flight, .. } = *upstream;
        let trust = TrustKey::of(upstream);
        // HTTP/2 reports that. Pingora cannot pool connections with the gateway's own TLS.
        let once = fresh || !repeatable && !trust.protocol.is_http2() || trust.tls_config.is_some();
        if once || !upstream.is_member() {
            let number = self.fresh.fetch_add(1, Relaxed);
            return Reuse { group: group(&trust, membership, true, 0, number), keep: false };
        }
        let mut hasher = DefaultHasher::new();
        address.hash(&mut hasher);
        let place = hasher.finish();
        let limit = keep_alive.requests.max(1);
        let uses = self.uses[place as usize % SLOTS].fetch_add(1, Relaxed);
        let left = limit - 1 - uses % limit;
        let tail = in_flight.saturating_mul(2).min((limit - 1) / 2);
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let period = keep_alive.age.as_secs().max(1);
        let age = (seconds + place % period) / period;
        // Pingora keeps one connection in a pool of size 0.
        let keep = left > tail && !keep_alive.idle.is_zero() && self.pool > 0;
        Reuse { group: group(&trust, membership, false, age, uses / limit), keep }
    }
}

fn group(trust: &TrustKey, membership: u64, fresh: bool, age: u64, use_epoch: u32) -> u64 {
    let mut hasher = DefaultHasher::new();
    (trust, membership, fresh, age, use_epoch).hash(&mut hasher);
    hasher.finish()
}

impl std::fmt::Debug for Epochs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epochs").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::UpstreamProtocol;
    use std::collections::HashMap;

    use super::*;
    use crate::pipeline::KeepAlive;

    fn upstream(protocol: UpstreamProtocol, requests: u32, fresh: bool) -> Upstream {
        let upstream = Upstream::to("10.0.0.1:80".parse().unwrap(), protocol);
        let keep_alive = KeepAlive { requests, ..upstream.keep_alive };
        Upstream { fresh, keep_alive, ..upstream }
    }

    #[test]
    fn no_group_is_used_more_often_than_a_connection_may_be() {
        for limit in [1, 2, 7, 100] {
            let epochs = Epochs::new(1);
            let mut uses = HashMap::new();
            let mut kept = 0;
            let upstream = upstream(UpstreamProtocol::Http, limit, false);
            for _ in 0..1000 {
                let reuse = epochs.next(&upstream);
                *uses.entry(reuse.group).or_insert(0_u32) += 1;
                kept += u32::from(reuse.keep);
            }
            // The clock may reach another epoch of time meanwhile: one more group, not more uses.
            assert!(uses.values().all(|count| *count <= limit), "{limit}: {uses:?}");
            assert_eq!(kept > 0, limit > 1, "{limit}");
        }
    }

    #[test]
    fn trust_settings_separate_groups() {
        let upstream = upstream(UpstreamProtocol::Http, 100, false);
        let group = |upstream: &Upstream| Epochs::new(1).next(upstream).group;
        let tls = Upstream { protocol: UpstreamProtocol::HttpsUnverified, ..upstream.clone() };
        assert_ne!(group(&upstream), group(&tls));
    }

    #[test]
    fn an_address_that_returns_gets_no_connection_from_before() {
        let before = upstream(UpstreamProtocol::Http, 100, false);
        let after = upstream(UpstreamProtocol::Http, 100, false);
        let epochs = Epochs::new(1);
        let group = epochs.next(&before).group;
        assert_eq!(epochs.next(&before).group, group);
        assert_ne!(epochs.next(&after).group, group, "another Service has the address");
        before.endpoint.leave();
        assert!(!epochs.next(&before).keep, "it has left");
    }

    #[test]
    fn no_connection_is_kept_with_zero_keepalive_connections() {
        for protocol in [UpstreamProtocol::Http, UpstreamProtocol::Grpc] {
            let upstream = upstream(protocol, 100, false);
            assert!(!Epochs::new(0).next(&upstream).keep);
            assert!(Epochs::new(1).next(&upstream).keep);
        }
    }

    #[test]
    fn fresh_groups_are_never_reused() {
        let once = Upstream { repeatable: false, ..upstream(UpstreamProtocol::Http, 100, false) };
        for wanted in [upstream(UpstreamProtocol::Http, 100, true), once] {
            let epochs = Epochs::new(1);
            let (one, other) = (epochs.next(&wanted), epochs.next(&wanted));
            assert_ne!(one.group, other.group);
            assert!(!one.keep && !other.keep);
        }
    }
}
