//! Hashes of 128 bits with a random key, so that no content can be made to fit one.

use std::hash::{BuildHasher, Hasher, RandomState};

use siphasher::sip128::{Hasher128, SipHasher13};

/// A random key.
#[derive(Clone, Copy)]
pub(super) struct SipKey(u64, u64);

impl SipKey {
    /// Creates a key.
    pub(super) fn random() -> Self {
        Self(RandomState::new().hash_one(0), RandomState::new().hash_one(1))
    }

    /// Returns a hasher for content that arrives in parts.
    pub(super) fn hasher(self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }

    /// Returns the hash of `bytes`.
    pub(super) fn hash(self, bytes: &[u8]) -> [u8; 16] {
        let mut hasher = self.hasher();
        hasher.write(bytes);
        hasher.finish128().as_bytes()
    }
}

impl std::fmt::Debug for SipKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SipKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_hashes_of_its_own() {
        let (one, other) = (SipKey::random(), SipKey::random());
        assert_eq!(one.hash(b"a"), one.hash(b"a"));
        assert_ne!(one.hash(b"a"), one.hash(b"b"));
        assert_ne!(one.hash(b"a"), other.hash(b"a"));
    }
}
