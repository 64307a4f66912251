//! What was found of passwords lately.
//!
//! An entry is known by a tag: a keyed hash of the stored hash and the password together. So whatever becomes of a
//! Secret, an entry never lets anybody in whom the present Secret would not, and users whose line did not change are
//! still remembered. The key is of this process alone, and nothing else of a password is kept.
//!
//! The table has a fixed size and no lock. Each tag has a few places, of which the one that would end first is given
//! away. What is wrong has places of its own, so that guesses push nobody out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use sluice_config::PasswordHash;

/// How long a right password is remembered after its last use.
const GOOD: Duration = Duration::from_secs(600);
/// How long a wrong one is: a client that repeats it costs nothing, and a hash that changes is looked at soon.
const WRONG: Duration = Duration::from_secs(10);
/// A use is noted when the last note is older: a busy password writes rarely.
const NOTE: Duration = Duration::from_secs(30);
/// Places of one tag.
const WAYS: usize = 4;

/// A tag.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag([u8; 32]);

/// What was found of passwords lately.
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
    /// Milliseconds after the table began.
    ends: AtomicU64,
}

impl Verified {
    /// Nothing, under a new key.
    ///
    /// # Panics
    /// The system has no random numbers. Nobody can serve TLS then either.
    pub(crate) fn new() -> Self {
        let rng = aws_lc_rs::rand::SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &rng).expect("the system has random numbers");
        Self { key, began: Instant::now(), good: Table::new(1024, GOOD), wrong: Table::new(256, WRONG) }
    }

    /// The tag of a password that is held against a hash.
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

    /// What was found, if it was lately.
    pub(super) fn recall(&self, tag: &Tag) -> Option<bool> {
        self.recall_at(tag, self.now())
    }

    /// Remembers what was found.
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

/// A process does not live for as long as these last.
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
    fn a_right_password_is_remembered_while_it_is_used_and_a_wrong_one_briefly() {
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
