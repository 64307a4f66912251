//! What limits have in common with other replicas: the key of the hashes of clients, and the share
//! of every limit that this replica may grant.
//!
//! Replicas that hear each other's use act as one and together have the sum of their shares. A
//! replica that is not heard keeps an equal share for itself, so that all together never exceed a
//! limit, also if one replica hears another that does not hear it.

use std::hash::{Hash, Hasher};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use aws_lc_rs::digest::{Context, SHA256};
use siphasher::sip::SipHasher13;

use super::Rate;

/// Read by every limited request.
#[derive(Debug)]
pub(crate) struct LimitSharing {
    key: [AtomicU64; 2],
    /// [`LimitShare::replicas`] in the upper half, [`LimitShare::heard`] in the lower one.
    share: AtomicU64,
}

/// The share of every limit that this replica grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitShare {
    /// Number of replicas, at least 1.
    pub(crate) replicas: u32,
    /// Number of replicas whose use is known: this one, and those that report theirs.
    pub(crate) heard: u32,
}

impl Default for LimitSharing {
    fn default() -> Self {
        let this =
            Self { key: [(); 2].map(|()| AtomicU64::new(fastrand::u64(..))), share: AtomicU64::new(0) };
        this.set_share(LimitShare::ALONE);
        this
    }
}

impl LimitSharing {
    /// Replaces the key of hashes. All clients are new then.
    pub(crate) fn set_key(&self, key: [u64; 2]) {
        self.key.iter().zip(key).for_each(|(own, new)| own.store(new, Relaxed));
    }

    /// Replaces the share that this replica grants.
    pub(crate) fn set_share(&self, LimitShare { replicas, heard }: LimitShare) {
        self.share.store(u64::from(replicas) << 32 | u64::from(heard), Relaxed);
    }

    /// Returns the share that this replica grants.
    pub(super) fn share(&self) -> LimitShare {
        let share = self.share.load(Relaxed);
        // Each half fits.
        LimitShare { replicas: (share >> 32) as u32, heard: share as u32 }
    }

    /// Returns the hash of a client. Without the key, no client can choose one that collides.
    pub(super) fn hash(&self, client: impl Hash) -> u64 {
        let [first, second] = [0, 1].map(|half: usize| self.key[half].load(Relaxed));
        let mut hasher = SipHasher13::new_with_keys(first, second);
        client.hash(&mut hasher);
        hasher.finish()
    }
}

impl LimitShare {
    /// The only replica.
    pub(crate) const ALONE: Self = Self { replicas: 1, heard: 1 };

    /// Returns whether there are no other replicas.
    pub(super) fn is_alone(self) -> bool {
        self.replicas <= 1
    }

    /// Returns the rate that the replicas that are heard may have together. A client may be early
    /// by the same time, and so by as many fewer requests.
    pub(super) fn of_rate(self, rate: Rate) -> Rate {
        Rate { interval: self.of_time(rate.interval), ..rate }
    }

    /// Returns the time of this use at the rate of the share.
    pub(super) fn of_time(self, time: u64) -> u64 {
        if self.replicas == self.heard {
            return time;
        }
        let time = u128::from(time) * u128::from(self.replicas) / u128::from(self.heard.max(1));
        u64::try_from(time).unwrap_or(u64::MAX).min(Rate::MOST)
    }

    /// Returns the requests per window that the replicas that are heard may have together.
    pub(super) fn of_quota(self, requests: u32) -> u64 {
        u64::from(requests) * u64::from(self.heard.max(1)) / u64::from(self.replicas.max(1))
    }

    /// Returns the number of concurrent requests that this replica may have: they are not reported,
    /// so it has an equal share, but at least one.
    pub(super) fn of_number(self, most: u32) -> u32 {
        (most / self.replicas.max(1)).max(1)
    }
}

/// Returns the hash of a zone, which is the same in all replicas.
pub(super) fn zone(kind: &str, names: &[&str]) -> u64 {
    let mut context = Context::new(&SHA256);
    for name in std::iter::once(&kind).chain(names) {
        context.update(name.as_bytes());
        // Occurs in no name.
        context.update(&[0]);
    }
    number(context)
}

/// Returns the first bytes of a SHA-256 as a number.
pub(crate) fn number(context: Context) -> u64 {
    context.finish().as_ref().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { interval: 100, early: 500 };

    #[test]
    fn a_share_is_that_of_the_replicas_that_are_heard() {
        let rate = |replicas, heard| LimitShare { replicas, heard }.of_rate(RATE);
        assert_eq!([rate(1, 1), rate(3, 3)], [RATE, RATE]);
        assert_eq!(rate(3, 1), Rate { interval: 300, early: 500 });
        assert_eq!(rate(3, 2), Rate { interval: 150, early: 500 });
        assert_eq!(rate(3, 0).interval, 300, "never without a limit");
        let slow = Rate { interval: Rate::MOST, early: Rate::MOST };
        assert_eq!(LimitShare { replicas: u32::MAX, heard: 1 }.of_rate(slow), slow, "no overflow");
    }

    #[test]
    fn concurrent_requests_are_divided_and_never_zero() {
        let number = |replicas, most| LimitShare { replicas, heard: replicas }.of_number(most);
        assert_eq!([number(1, 10), number(3, 10), number(3, 2)], [10, 3, 1]);
    }

    #[test]
    fn hashes_depend_on_the_key_only() {
        let [one, other] = [(); 2].map(|()| LimitSharing::default());
        assert_ne!(one.hash(("a", 1)), other.hash(("a", 1)));
        one.set_key([1, 2]);
        other.set_key([1, 2]);
        assert_eq!(one.hash(("a", 1)), other.hash(("a", 1)));
        assert_ne!(zone("ingress", &["a", "bc"]), zone("ingress", &["ab", "c"]));
    }
}
