//! Nonces: unique values that are valid for a few minutes, with a use count that never repeats.
//!
//! A nonce is its own record: it holds its time of issue and a keyed hash that proves its origin. A
//! client that requests one and never returns therefore occupies no memory. Only the used counts of
//! nonces with a successful login are stored, in a table of fixed size without a lock. When a nonce
//! is evicted from its set, all nonces of that set that are as old become invalid, because their
//! counts may have been forgotten; their clients receive a new nonce.
//!
//! The key is private to this process: a nonce from another replica is stale here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Lifetime of a nonce.
const LIFE: Duration = Duration::from_secs(300);
/// Number of sets of used nonces.
const SETS: usize = 2048;
/// Nonces per set.
const WAYS: usize = 8;
/// How far a count may lag behind the highest one: concurrent requests of a client can overtake
/// each other.
const WINDOW: u32 = 32;

/// Bytes of a stamp: the time of issue in milliseconds since the creation of the table, then a
/// random number.
const STAMP: usize = 8 + 8;
/// Bytes of the keyed hash.
const MAC: usize = 16;

/// Issues nonces and records their use.
pub(crate) struct Nonces {
    key: hmac::Key,
    began: Instant,
    sets: Box<[Set]>,
}

#[derive(Default)]
struct Set {
    ways: [ArcSwapOption<Used>; WAYS],
    /// Nonces issued at or before this time that are not in the set may have been forgotten. The
    /// value is the time in milliseconds plus one; 0 stands for none.
    floor: AtomicU64,
}

/// The used counts of one nonce.
struct Used {
    stamp: [u8; STAMP],
    issued: u64,
    /// Time of insertion; the oldest entry is evicted first.
    entered: u64,
    /// Upper half: the highest count. Lower half: a bit for each of the last 32 counts, the lowest
    /// bit for the highest count.
    counts: AtomicU64,
}

impl Nonces {
    /// Returns an empty table with a new key.
    ///
    /// # Panics
    /// The system has no source of random numbers. TLS is impossible then, too.
    pub(crate) fn new() -> Self {
        let rng = aws_lc_rs::rand::SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &rng).expect("the system has random numbers");
        Self { key, began: Instant::now(), sets: (0..SETS).map(|_| Set::default()).collect() }
    }

    /// Issues a new nonce.
    pub(super) fn issue(&self) -> String {
        self.issue_at(self.now())
    }

    /// Records use number `count` of a nonce. Returns false if this count was used before, or if
    /// the nonce is forged or expired.
    pub(super) fn take(&self, nonce: &[u8], count: u32) -> bool {
        self.take_at(nonce, count, self.now())
    }

    fn issue_at(&self, now: u64) -> String {
        let mut nonce = [0; STAMP + MAC];
        nonce[..8].copy_from_slice(&now.to_be_bytes());
        // The random number makes nonces differ; the keyed hash makes them unforgeable.
        nonce[8..STAMP].copy_from_slice(&fastrand::u64(..).to_be_bytes());
        let mac = self.mac(&nonce[..STAMP]);
        nonce[STAMP..].copy_from_slice(&mac);
        URL_SAFE_NO_PAD.encode(nonce)
    }

    fn take_at(&self, nonce: &[u8], count: u32, now: u64) -> bool {
        let Some(stamp) = self.stamp(nonce) else { return false };
        let issued = issued(&stamp);
        // Counts start at 1.
        if count == 0 || !is_alive(issued, now) {
            return false;
        }
        let number = u64::from_be_bytes(std::array::from_fn(|at| stamp[8 + at]));
        let set = &self.sets[(number % SETS as u64) as usize];
        loop {
            let ways: [_; WAYS] = std::array::from_fn(|way| set.ways[way].load());
            let known = ways.iter().filter_map(|way| way.as_ref()).find(|used| used.stamp == stamp);
            if let Some(used) = known {
                return used.take(count);
            }
            if issued < set.floor.load(Relaxed) {
                return false;
            }
            // Two concurrent first uses of a nonce choose the same way, because entry times in a
            // set only increase. One of the two then fails the comparison below.
            let entered = |way: &usize| ways[*way].as_ref().map_or(0, |used| used.entered);
            let Some(oldest) = (0..WAYS).min_by_key(entered) else { return false };
            if let Some(used) = ways[oldest].as_ref().filter(|used| is_alive(used.issued, now)) {
                if issued <= used.issued {
                    // The nonce is as old as the one to be evicted, and would become invalid with
                    // it.
                    return false;
                }
                set.floor.fetch_max(used.issued + 1, Relaxed);
            }
            let entered = entered(&oldest).max(now) + 1;
            let counts = AtomicU64::new(u64::from(count) << 32 | 1);
            let used = Arc::new(Used { stamp, issued, entered, counts });
            let before = set.ways[oldest].compare_and_swap(&ways[oldest], Some(used));
            if before.as_ref().map(Arc::as_ptr) == ways[oldest].as_ref().map(Arc::as_ptr) {
                return true;
            }
        }
    }

    /// Returns the stamp of a nonce that this process issued.
    fn stamp(&self, nonce: &[u8]) -> Option<[u8; STAMP]> {
        let mut bytes = [0; STAMP + MAC];
        if URL_SAFE_NO_PAD.decode_slice(nonce, &mut bytes).ok()? != bytes.len() {
            return None;
        }
        let (stamp, mac) = bytes.split_at(STAMP);
        verify_slices_are_equal(&self.mac(stamp), mac).ok()?;
        stamp.try_into().ok()
    }

    fn mac(&self, stamp: &[u8]) -> [u8; MAC] {
        let tag = hmac::sign(&self.key, stamp);
        std::array::from_fn(|at| tag.as_ref()[at])
    }

    fn now(&self) -> u64 {
        // Cannot overflow: no process runs that long.
        self.began.elapsed().as_millis() as u64
    }
}

impl Used {
    /// Records a count. Returns false if it was used before, or is too old to decide.
    fn take(&self, count: u32) -> bool {
        let noted = self.counts.fetch_update(Relaxed, Relaxed, |counts| {
            let (highest, seen) = ((counts >> 32) as u32, counts as u32);
            if count > highest {
                let seen = seen.checked_shl(count - highest).unwrap_or(0) | 1;
                return Some(u64::from(count) << 32 | u64::from(seen));
            }
            let back = highest - count;
            (back < WINDOW && seen >> back & 1 == 0).then(|| counts | 1 << back)
        });
        noted.is_ok()
    }
}

fn issued(stamp: &[u8; STAMP]) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|at| stamp[at]))
}

fn is_alive(issued: u64, now: u64) -> bool {
    now < issued.saturating_add(LIFE.as_millis() as u64)
}

impl std::fmt::Debug for Nonces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Nonces(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: u64 = super::LIFE.as_millis() as u64;

    #[test]
    fn a_count_is_used_once_in_nearly_any_order() {
        let nonces = Nonces::new();
        let nonce = nonces.issue_at(5);
        let take = |count| nonces.take_at(nonce.as_bytes(), count, 6);
        assert!(!take(0), "no count");
        for count in [2, 1, 40, 39, 10, 3_000_000_000] {
            assert!(take(count), "{count}");
            assert!(!take(count), "{count} again");
        }
        assert!(!take(41), "too far behind for anybody to know");
        assert!(take(2_999_999_999) && take(u32::MAX) && !take(u32::MAX));
    }

    #[test]
    fn it_ends_after_a_while_and_is_ours_alone() {
        let (nonces, others) = (Nonces::new(), Nonces::new());
        let nonce = nonces.issue_at(0);
        assert!(nonces.take_at(nonce.as_bytes(), 1, LIFE - 1));
        assert!(!nonces.take_at(nonce.as_bytes(), 2, LIFE));
        assert!(!others.take_at(nonce.as_bytes(), 1, 1));
        for at in 0..nonce.len() {
            let mut forged = nonce.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            assert!(!nonces.take_at(&forged, 9, 1), "{at}");
        }
        for none in ["", "AAAA", "%", &nonce[1..], &format!("{nonce}A")] {
            assert!(!nonces.take_at(none.as_bytes(), 1, 1), "{none}");
        }
    }

    #[test]
    fn an_evicted_nonce_never_counts_as_new() {
        let nonces = Nonces::new();
        let all: Vec<String> =
            (0..(SETS * WAYS * 2) as u64).map(|time| nonces.issue_at(time / 400)).collect();
        let now = 100;
        let used: Vec<&String> =
            all.iter().filter(|nonce| nonces.take_at(nonce.as_bytes(), 1, now)).collect();
        assert!(used.len() > SETS, "most clients get in at once: {}", used.len());
        assert!(used.iter().all(|nonce| !nonces.take_at(nonce.as_bytes(), 1, now)), "a copy got in");
    }

    #[test]
    fn of_concurrent_uses_one_is_accepted() {
        let nonces = Nonces::new();
        for round in 0..50 {
            let nonce = nonces.issue_at(round);
            let start = std::sync::Barrier::new(4);
            let one = || {
                start.wait();
                usize::from(nonces.take_at(nonce.as_bytes(), 1, round))
            };
            let taken: usize = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            assert_eq!(taken, 1, "round {round}");
        }
    }
}
