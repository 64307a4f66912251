//! Slots of the limit tables: a key selects a set of eight slots, and its tag marks the client's
//! slot in the set.
//!
//! The hash is keyed, so that an attacker cannot choose addresses that collide.

/// Number of sets in a table.
pub(super) const SETS: usize = 1 << 15;

/// Slots per set.
pub(super) const WAYS: usize = 8;

/// Maximum number of attempts when other threads change the set concurrently.
pub(super) const ROUNDS: usize = 64;

/// Returns the set of a key.
pub(super) fn of(key: u64) -> usize {
    // Uses low bits of the hash; 15 bits fit a `u16` and a `usize` everywhere. The lowest bit is
    // left out, because tags differ from keys in it.
    usize::from((key >> 1) as u16) % SETS
}
