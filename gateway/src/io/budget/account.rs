//! What each connection of a thread holds.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;

use super::thread_reserve::RESERVE;
use super::waiting::WaitKey;

/// The account of whoever is no connection: there is always room for it while there is any.
pub(super) const NOBODY: usize = 0;

/// The account of a connection, on whose thread it must stay. What is still held when it is dropped stays counted until it
/// is given back.
#[derive(Debug)]
pub(crate) struct Account {
    at: usize,
}

/// The accounts of a thread.
#[derive(Debug)]
pub(super) struct Accounts {
    /// By number. The first one is nobody's.
    entries: Vec<Entry>,
    /// Numbers that are free.
    free: Vec<usize>,
    /// Who waits for memory, by connection: hardly ever anybody.
    waiting: BTreeMap<usize, Vec<WaitKey>>,
    current: usize,
}

#[derive(Debug, Default)]
struct Entry {
    held: usize,
    /// Of which so much waits for the other side to take it.
    flowing: usize,
    is_open: bool,
}

/// While the connection is polled.
pub(super) struct Entered {
    before: usize,
}

impl Default for Accounts {
    fn default() -> Self {
        let nobody = Entry { is_open: true, ..Entry::default() };
        Self { entries: vec![nobody], free: Vec::new(), waiting: BTreeMap::new(), current: NOBODY }
    }
}

impl Accounts {
    fn open(&mut self) -> usize {
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            self.entries.len() - 1
        });
        self.entries[at].is_open = true;
        at
    }

    fn close(&mut self, at: usize) {
        self.entries[at].is_open = false;
        self.collect(at);
    }

    /// Another connection may have the number when nothing is left of this one.
    fn collect(&mut self, at: usize) {
        let entry = &self.entries[at];
        if !entry.is_open && entry.held == 0 && !self.waiting.contains_key(&at) {
            self.free.push(at);
        }
    }

    /// Of the connection that is being polled.
    pub(super) fn current(&self) -> usize {
        self.current
    }

    /// Bytes that a connection holds, as far as that bounds it.
    pub(super) fn held(&self, at: usize) -> usize {
        match at {
            NOBODY => 0,
            at => self.entries[at].held,
        }
    }

    /// Whether nothing waits for a slow side.
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

    /// Those of a connection who wait for memory.
    pub(super) fn waiting(&self, at: usize) -> &[WaitKey] {
        self.waiting.get(&at).map_or(&[], Vec::as_slice)
    }
}

impl Account {
    /// For a new connection of this thread.
    pub(crate) fn open() -> Self {
        Self { at: RESERVE.with_borrow_mut(|reserve| reserve.accounts.open()) }
    }

    /// The future of the connection: what is taken while it is polled counts for this account.
    pub(crate) fn of<'a, F: Future>(
        &'a self,
        mut connection: Pin<&'a mut F>,
    ) -> impl Future<Output = F::Output> + 'a {
        poll_fn(move |cx| {
            let _entered = self.enter();
            connection.as_mut().poll(cx)
        })
    }

    /// From now on what is taken counts for it.
    pub(super) fn enter(&self) -> Entered {
        Entered { before: swap(self.at) }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // At the end of a thread there is nothing left to close.
        let _ = RESERVE.try_with(|reserve| reserve.borrow_mut().accounts.close(self.at));
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        swap(self.before);
    }
}

fn swap(at: usize) -> usize {
    RESERVE.with_borrow_mut(|reserve| mem::replace(&mut reserve.accounts.current, at))
}
