//! Cache of password verification results.
//!
//! An entry is identified by a tag: a keyed hash of the stored hash together with the password.
//! After a Secret changes, an entry therefore never admits a client that the current Secret would
//! reject, and users whose line did not change stay cached. The key is private to this process, and
//! no other part of a password is stored.
//!
//! The table has a fixed size and no lock. Each tag maps to a few slots; the slot that would expire
//! first is overwritten. Wrong passwords have slots of their own, so guesses never evict right
//! ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use sluice_config::PasswordHash;

/// How long a right password is cached after its last use.
const GOOD: Duration = Duration::from_secs(600);
/// How long a wrong password is cached. A client that repeats it meanwhile costs nothing.
const WRONG: Duration = Duration::from_secs(10);
/// Minimum time between two updates of an entry's expiry, so that a frequently used password causes
/// few writes.
const NOTE: Duration = Duration::from_secs(30);
/// Slots per tag.
const WAYS: usize = 4;

/// Identifies a pair of hash and password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag([u8; 32]);

/// Cache of password verification results.
pub(crate) struct Verified {
    key: hmac::Key,
    began: Instant,
    good: Table,
    wrong: Table,
}

struct Table {
    sets: Box<[[ArcSwapOption<Entry>; WAYS]]>,
    life: Duration,
}

struct Entry {
    tag: Tag,
    /// Expiry, in milliseconds since the creation of the table.
    ends: AtomicU64,
}

impl Verified {
    /// Returns an empty cache with a new key.
    ///
    /// # Panics
    /// The system has no source of random numbers. TLS is impossible then, too.
    pub(crate) fn new() -> Self {
        let rng = aws_lc_rs::rand::SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &rng).expect("the system has random numbers");
        Self { key, began: Instant::now(), good: Table::new(1024, GOOD), wrong: Table::new(256, WRONG) }
    }

    /// Returns the tag of `password`, checked against `hash`.
    pub(super) fn tag(&self, hash: &PasswordHash, password: &[u8]) -> Tag {
        let mut context = hmac::Context::with_key(&self.key);
        let mut part = |kind: u8, bytes: &[u8]| {
            context.update(&[kind]);
            context.update(&(bytes.len() as u64).to_le_bytes());
            context.update(bytes);
        };
        match hash {
            PasswordHash::Bcrypt { cost, salt, digest } => {
                part(1, &[*cost]);
                part(1, salt);
                part(1, digest);
            }
            PasswordHash::ShaCrypt { rounds, salt, digest } => {
                part(2, &rounds.to_le_bytes());
                part(2, salt.as_bytes());
                part(2, digest);
            }
            PasswordHash::Md5Crypt { apache, salt, digest } => {
                part(3, &[u8::from(*apache)]);
                part(3, salt.as_bytes());
                part(3, digest);
            }
            PasswordHash::Sha1 { digest, salt } => {
                part(4, digest);
                part(4, salt);
            }
            PasswordHash::Plain(known) => part(5, known.as_bytes()),
        }
        part(0, password);
        let mut tag = [0; 32];
        tag.copy_from_slice(context.sign().as_ref());
        Tag(tag)
    }

    /// Returns the cached result, if there is one that has not expired.
    pub(super) fn recall(&self, tag: &Tag) -> Option<bool> {
        self.recall_at(tag, self.now())
    }

    /// Caches a result.
    pub(super) fn remember(&self, tag: &Tag, good: bool) {
        self.remember_at(tag, good, self.now());
    }

    fn recall_at(&self, tag: &Tag, now: Duration) -> Option<bool> {
        if let Some(entry) = self.good.find(tag, now) {
            let ends = millis(now + GOOD);
            if entry.ends.load(Relaxed) + millis(NOTE) < ends {
                entry.ends.store(ends, Relaxed);
            }
            return Some(true);
        }
        self.wrong.find(tag, now).map(|_| false)
    }

    fn remember_at(&self, tag: &Tag, good: bool, now: Duration) {
        if good { &self.good } else { &self.wrong }.put(tag, now);
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}

impl Table {
    fn new(sets: usize, life: Duration) -> Self {
        let set = || std::array::from_fn(|_| ArcSwapOption::empty());
        Self { sets: (0..sets).map(|_| set()).collect(), life }
    }

    fn places(&self, tag: &Tag) -> &[ArcSwapOption<Entry>; WAYS] {
        let number = usize::from(u16::from_le_bytes([tag.0[0], tag.0[1]]));
        &self.sets[number % self.sets.len()]
    }

    fn find(&self, tag: &Tag, now: Duration) -> Option<Arc<Entry>> {
        self.places(tag).iter().find_map(|place| {
            let entry = place.load();
            let entry = entry.as_ref()?;
            let is_it = verify_slices_are_equal(&entry.tag.0, &tag.0).is_ok();
            (is_it && entry.ends.load(Relaxed) > millis(now)).then(|| entry.clone())
        })
    }

    fn put(&self, tag: &Tag, now: Duration) {
        let ends = |place: &&ArcSwapOption<Entry>| match &*place.load() {
            None => 0,
            Some(entry) if entry.tag == *tag => 0,
            Some(entry) => entry.ends.load(Relaxed),
        };
        if let Some(place) = self.places(tag).iter().min_by_key(ends) {
            place.store(Some(Arc::new(Entry { tag: *tag, ends: AtomicU64::new(millis(now + self.life)) })));
        }
    }
}

/// Cannot overflow: no process runs that long.
fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
}

impl std::fmt::Debug for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verified(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::ZERO;

    fn plain(text: &str) -> PasswordHash {
        PasswordHash::Plain(text.into())
    }

    #[test]
    fn a_right_password_is_cached_while_used_and_a_wrong_one_briefly() {
        let verified = Verified::new();
        let [good, wrong] = [b"good", b"evil"].map(|text| verified.tag(&plain("x"), text));
        assert_eq!(verified.recall_at(&good, START), None);
        verified.remember_at(&good, true, START);
        verified.remember_at(&wrong, false, START);
        assert_eq!(verified.recall_at(&wrong, START), Some(false));
        assert_eq!(verified.recall_at(&wrong, WRONG), None);
        let mut now = START;
        for _ in 0..10 {
            now += GOOD - Duration::from_millis(1);
            assert_eq!(verified.recall_at(&good, now), Some(true));
        }
        assert_eq!(verified.recall_at(&good, now + GOOD), None);
    }

    #[test]
    fn a_tag_is_of_the_hash_and_the_password_and_of_this_process() {
        let (one, other) = (Verified::new(), Verified::new());
        let md5 = |salt: &str, apache| PasswordHash::Md5Crypt { apache, salt: salt.into(), digest: [7; 16] };
        let tags = [
            one.tag(&plain("x"), b"a"),
            one.tag(&plain("x"), b"b"),
            one.tag(&plain("y"), b"a"),
            one.tag(&plain("xa"), b""),
            one.tag(&md5("x", true), b"a"),
            one.tag(&md5("x", false), b"a"),
            one.tag(&md5("y", true), b"a"),
            other.tag(&plain("x"), b"a"),
        ];
        for (at, tag) in tags.iter().enumerate() {
            assert!(tags[..at].iter().all(|earlier| earlier != tag), "{at}");
        }
        assert!(one.tag(&plain("x"), b"a") == tags[0]);
    }

    #[test]
    fn guesses_push_no_right_password_out_and_take_bounded_room() {
        let verified = Verified::new();
        let good = verified.tag(&plain("x"), b"good");
        verified.remember_at(&good, true, START);
        for guess in 0..20_000_u32 {
            let tag = verified.tag(&plain("x"), &guess.to_le_bytes());
            verified.remember_at(&tag, false, START);
            assert_eq!(verified.recall_at(&tag, START), Some(false), "the newest stays");
        }
        assert_eq!(verified.recall_at(&good, START), Some(true));
    }
}
