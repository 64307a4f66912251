//! Where a client is in a table: a key says in which set of eight it may be, and which of the eight is its own.
//!
//! The hash has a key of its own in each process, so that nobody can choose addresses that meet.

/// Sets of a table.
pub(super) const SETS: usize = 1 << 15;

/// Places in a set.
pub(super) const WAYS: usize = 8;

/// How often a request looks again when others change the set meanwhile.
pub(super) const ROUNDS: usize = 64;

/// The set of a key.
pub(super) fn of(key: u64) -> usize {
    // The low bits are as good as any, and 15 of them fit everywhere.
    usize::from(key as u16) % SETS
}
