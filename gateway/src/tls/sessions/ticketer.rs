//! Tickets under a key of the operator, which all replicas accept (`ssl-session-ticket-key`).
//!
//! Each profile has a key of its own that is derived from the operator's (HKDF, RFC 5869), so that
//! a ticket is worth nothing under another profile. A changed key makes new tickets; those of keys
//! before are accepted until they expire. AES-GCM-SIV, because replicas draw their nonces
//! independently.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use rustls::server::ProducesTickets;
use sluice_config::TicketKey;

/// Bytes of the name of a key.
const NAME: usize = 16;
/// Bytes of a key of AES-256-GCM.
const KEY: usize = 32;

/// The keys in force, the newest first.
#[derive(Debug)]
pub(super) struct TicketKeys {
    keys: Vec<OperatorKey>,
    timeout: Duration,
}

#[derive(Clone)]
struct OperatorKey {
    key: TicketKey,
    /// When the last ticket under it expires; `None` for the newest.
    until: Option<Instant>,
}

impl TicketKeys {
    pub(super) fn new(key: &TicketKey, timeout: Duration) -> Self {
        Self { keys: vec![OperatorKey { key: key.clone(), until: None }], timeout }
    }

    /// Adds the previous keys while tickets under them may exist.
    pub(super) fn replacing(before: Option<&Self>, key: &TicketKey, timeout: Duration) -> Self {
        let now = Instant::now();
        let mut keys = Self::new(key, timeout).keys;
        for old in before.iter().flat_map(|before| &before.keys) {
            let lifetime = before.map_or(timeout, |before| before.timeout);
            let until = old.until.or_else(|| now.checked_add(lifetime));
            if old.key != *key && until.is_some_and(|until| until > now) {
                keys.push(OperatorKey { key: old.key.clone(), until });
            }
        }
        Self { keys, timeout }
    }
}

/// The tickets of one profile.
pub(super) struct Ticketer {
    keys: Box<[ProfileKey]>,
    /// Seconds that clients keep tickets.
    lifetime: u32,
}

/// A key that is derived for one profile.
struct ProfileKey {
    name: [u8; NAME],
    key: RandomizedNonceKey,
    until: Option<Instant>,
}

impl Ticketer {
    /// Derives the keys of a profile.
    pub(super) fn new(keys: &Arc<TicketKeys>, profile: &[u8]) -> Self {
        let derived = keys.keys.iter().filter_map(|key| ProfileKey::derive(key, profile));
        let lifetime = u32::try_from(keys.timeout.as_secs()).unwrap_or(u32::MAX);
        Self { keys: derived.collect(), lifetime }
    }
}

impl ProfileKey {
    fn derive(operator: &OperatorKey, profile: &[u8]) -> Option<Self> {
        let secret = Salt::new(HKDF_SHA256, b"sluice session tickets").extract(&operator.key.0);
        let mut bytes = [0; NAME + KEY];
        secret.expand(&[profile], Length(bytes.len())).ok()?.fill(&mut bytes).ok()?;
        let (name, key) = bytes.split_at(NAME);
        Some(Self {
            name: name.try_into().ok()?,
            key: RandomizedNonceKey::new(&AES_256_GCM_SIV, key).ok()?,
            until: operator.until,
        })
    }
}

/// Number of derived bytes.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        !self.keys.is_empty()
    }

    fn lifetime(&self) -> u32 {
        self.lifetime
    }

    /// A ticket is the name of its key, a nonce, and the encrypted session.
    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let newest = self.keys.first()?;
        let mut sealed = plain.to_vec();
        let nonce = newest.key.seal_in_place_append_tag(Aad::from(newest.name), &mut sealed).ok()?;
        Some([&newest.name[..], &nonce.as_ref()[..], &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let now = Instant::now();
        let is_usable = |key: &&ProfileKey| key.name == name && key.until.is_none_or(|until| until > now);
        let key = self.keys.iter().find(is_usable)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let plain = key.key.open_in_place(nonce, Aad::from(key.name), &mut sealed).ok()?;
        Some(plain.to_vec())
    }
}

/// Hides the key.
impl fmt::Debug for OperatorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorKey").field("until", &self.until).finish_non_exhaustive()
    }
}

/// Hides the keys.
impl fmt::Debug for Ticketer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticketer").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(600);

    fn key(byte: u8) -> TicketKey {
        TicketKey(vec![byte; 80])
    }

    fn ticketer(keys: TicketKeys, profile: &str) -> Ticketer {
        Ticketer::new(&Arc::new(keys), profile.as_bytes())
    }

    #[test]
    fn replicas_with_the_same_key_accept_each_others_tickets() {
        let [one, other] = [(); 2].map(|()| ticketer(TicketKeys::new(&key(1), TIMEOUT), "a"));
        let ticket = one.encrypt(b"session").unwrap();
        assert_eq!(other.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert!(!ticket.windows(7).any(|window| window == b"session"));
        assert_ne!(one.encrypt(b"session").unwrap(), ticket);
    }

    #[test]
    fn a_ticket_is_worth_nothing_elsewhere() {
        let own = ticketer(TicketKeys::new(&key(1), TIMEOUT), "a");
        let ticket = own.encrypt(b"session").unwrap();
        assert_eq!(ticketer(TicketKeys::new(&key(1), TIMEOUT), "b").decrypt(&ticket), None);
        assert_eq!(ticketer(TicketKeys::new(&key(2), TIMEOUT), "a").decrypt(&ticket), None);
        for length in 0..ticket.len() {
            assert_eq!(own.decrypt(&ticket[..length]), None, "{length}");
        }
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(own.decrypt(&changed), None, "{at}");
        }
    }

    #[test]
    fn tickets_of_the_key_before_are_accepted_until_they_expire() {
        let first = TicketKeys::new(&key(1), TIMEOUT);
        let ticket = ticketer(TicketKeys::new(&key(1), TIMEOUT), "a").encrypt(b"session").unwrap();
        let second = TicketKeys::replacing(Some(&first), &key(2), TIMEOUT);
        let third = TicketKeys::replacing(Some(&second), &key(3), TIMEOUT);
        assert_eq!(third.keys.len(), 3);
        let rotated = ticketer(third, "a");
        assert_eq!(rotated.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        let new = rotated.encrypt(b"session").unwrap();
        assert_eq!(ticketer(first, "a").decrypt(&new), None, "the newest key makes tickets");
        let expired = TicketKeys::new(&key(1), Duration::ZERO);
        let expired = TicketKeys::replacing(Some(&expired), &key(2), TIMEOUT);
        assert_eq!(expired.keys.len(), 1);
    }
}
