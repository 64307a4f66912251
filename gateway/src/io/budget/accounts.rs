//! The bytes that each connection of a thread holds.

use std::collections::BTreeMap;
use std::mem;

use super::waiting::WaitKey;

/// Account for work that belongs to no connection. Only the budget itself limits it.
pub(super) const UNOWNED: usize = 0;

/// All accounts of a thread.
#[derive(Debug)]
pub(super) struct Accounts {
    /// Entries by account number. The first one is [`UNOWNED`].
    entries: Vec<Entry>,
    /// Free account numbers.
    free: Vec<usize>,
    /// Tasks that wait for memory, by account. Usually empty.
    waiting: BTreeMap<usize, Vec<WaitKey>>,
    current: usize,
}

#[derive(Debug, Default)]
struct Entry {
    held: usize,
    /// Part of `held` that waits to be sent to a possibly slow side.
    flowing: usize,
    is_open: bool,
}

impl Default for Accounts {
    fn default() -> Self {
        let unowned = Entry { is_open: true, ..Entry::default() };
        Self { entries: vec![unowned], free: Vec::new(), waiting: BTreeMap::new(), current: UNOWNED }
    }
}

impl Accounts {
    pub(super) fn open(&mut self) -> usize {
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            self.entries.len() - 1
        });
        self.entries[at].is_open = true;
        at
    }

    pub(super) fn close(&mut self, at: usize) {
        self.entries[at].is_open = false;
        self.collect(at);
    }

    /// Frees the number of a closed account once it holds nothing.
    fn collect(&mut self, at: usize) {
        let entry = &self.entries[at];
        if !entry.is_open && entry.held == 0 && !self.waiting.contains_key(&at) {
            self.free.push(at);
        }
    }

    /// Makes an account the current one; returns the previous one.
    pub(super) fn enter(&mut self, at: usize) -> usize {
        mem::replace(&mut self.current, at)
    }

    /// Returns the account of the connection that is being polled.
    pub(super) fn current(&self) -> usize {
        self.current
    }

    /// Returns the bytes that count towards the maximum of the account.
    pub(super) fn held(&self, at: usize) -> usize {
        match at {
            UNOWNED => 0,
            at => self.entries[at].held,
        }
    }

    /// Returns whether the account holds no unsent output.
    pub(super) fn is_idle(&self, at: usize) -> bool {
        self.entries[at].flowing == 0
    }

    pub(super) fn add(&mut self, at: usize, bytes: usize, flows: bool) {
        let entry = &mut self.entries[at];
        entry.held += bytes;
        entry.flowing += if flows { bytes } else { 0 };
    }

    pub(super) fn subtract(&mut self, at: usize, bytes: usize, flows: bool) {
        let entry = &mut self.entries[at];
        entry.held = entry.held.saturating_sub(bytes);
        entry.flowing = entry.flowing.saturating_sub(if flows { bytes } else { 0 });
        self.collect(at);
    }

    pub(super) fn begin_to_wait(&mut self, at: usize, key: WaitKey) {
        self.waiting.entry(at).or_default().push(key);
    }

    pub(super) fn end_to_wait(&mut self, at: usize, key: WaitKey) {
        if let Some(keys) = self.waiting.get_mut(&at) {
            keys.retain(|other| *other != key);
            if keys.is_empty() {
                self.waiting.remove(&at);
            }
        }
        self.collect(at);
    }

    /// Returns the waiting tasks of an account.
    pub(super) fn waiting(&self, at: usize) -> &[WaitKey] {
        self.waiting.get(&at).map_or(&[], Vec::as_slice)
    }
}
