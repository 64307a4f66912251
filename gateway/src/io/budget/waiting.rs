//! The queue of tasks that wait for memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Order of waiters: the bytes that the connection would hold after its request, then the ticket
/// number.
pub(super) type WaitKey = (usize, u64);

/// Tasks that wait for memory. Touched only while memory is short.
#[derive(Debug)]
pub(super) struct Waiting {
    /// `held` of the first waiter; `usize::MAX` if there is none.
    least: AtomicUsize,
    /// Ordered by the bytes held: connections that hold least continue first.
    wakers: Mutex<Wakers>,
}

#[derive(Debug, Default)]
struct Wakers {
    /// Number of the last ticket.
    last: u64,
    by_held: BTreeMap<WaitKey, Waker>,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { least: AtomicUsize::new(usize::MAX), wakers: Mutex::default() }
    }
}

impl Waiting {
    /// Returns how often a task started to wait.
    pub(super) fn count(&self) -> u64 {
        self.wakers().last
    }

    /// Returns whether a waiter could continue if connections may hold `part()` bytes.
    pub(super) fn would_help(&self, part: impl FnOnce() -> usize) -> bool {
        let least = self.least.load(SeqCst);
        least < usize::MAX && least < part()
    }

    /// Wakes all waiters that hold less than `part` bytes.
    pub(super) fn wake(&self, part: usize) {
        if part <= self.least.load(SeqCst) {
            return;
        }
        let woken = {
            let mut wakers = self.wakers();
            let others = wakers.by_held.split_off(&(part, 0));
            let woken = std::mem::replace(&mut wakers.by_held, others);
            self.look(&wakers);
            woken
        };
        woken.into_values().for_each(Waker::wake);
    }

    /// Wakes these waiters without removing them; they leave the queue themselves.
    pub(super) fn wake_these(&self, keys: &[WaitKey]) {
        let wakers = self.wakers();
        for key in keys {
            if let Some(waker) = wakers.by_held.get(key) {
                waker.wake_by_ref();
            }
        }
    }

    /// Returns the number of a new ticket.
    pub(super) fn next_number(&self) -> u64 {
        let mut wakers = self.wakers();
        wakers.last += 1;
        wakers.last
    }

    pub(super) fn insert(&self, key: WaitKey, waker: &Waker) {
        let mut wakers = self.wakers();
        wakers.by_held.insert(key, waker.clone());
        self.look(&wakers);
    }

    pub(super) fn remove(&self, key: WaitKey) {
        let mut wakers = self.wakers();
        wakers.by_held.remove(&key);
        self.look(&wakers);
    }

    /// Updates `least`. Must be called after every change.
    fn look(&self, wakers: &Wakers) {
        self.least.store(wakers.by_held.first_key_value().map_or(usize::MAX, |((held, _), _)| *held), SeqCst);
    }

    fn wakers(&self) -> MutexGuard<'_, Wakers> {
        // No panic can leave a map of wakers half changed.
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
