//! The queue of tasks that wait for memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use super::account::UNOWNED;
use super::thread_reserve::{RESERVE, ThreadReserve};
use super::{Budget, LEAST_PORTION};

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

/// A position in the queue for memory; leaves the queue when dropped.
#[derive(Debug, Default)]
pub(crate) struct WaitTicket {
    place: Option<QueuedWait>,
}

#[derive(Debug)]
struct QueuedWait {
    budget: Arc<Budget>,
    account: usize,
    key: WaitKey,
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

    fn insert(&self, key: WaitKey, waker: &Waker) {
        let mut wakers = self.wakers();
        wakers.by_held.insert(key, waker.clone());
        self.look(&wakers);
    }

    fn remove(&self, key: WaitKey) {
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

impl WaitTicket {
    /// Queues the current task with the bytes that its connection holds now.
    pub(super) fn wait(&mut self, reserve: &mut ThreadReserve, cx: &Context<'_>) {
        let Some(budget) = reserve.process.clone() else { return };
        let account = reserve.accounts.current();
        let held = match account {
            // A connection without unsent output can use any amount.
            account if account == UNOWNED || reserve.accounts.is_idle(account) => 0,
            account => reserve.accounts.held(account) + LEAST_PORTION - 1,
        };
        let number = match self.place.take() {
            Some(place) => {
                place.budget.waiting.remove(place.key);
                reserve.accounts.end_to_wait(place.account, place.key);
                place.key.1
            }
            None => {
                let mut wakers = budget.waiting.wakers();
                wakers.last += 1;
                wakers.last
            }
        };
        let key = (held, number);
        budget.waiting.insert(key, cx.waker());
        reserve.accounts.begin_to_wait(account, key);
        self.place = Some(QueuedWait { budget, account, key });
    }

    pub(super) fn leave(&mut self) {
        if let Some(QueuedWait { budget, account, key }) = self.place.take() {
            budget.waiting.remove(key);
            // The access fails only while the thread ends.
            let _ = RESERVE.try_with(|reserve| reserve.borrow_mut().accounts.end_to_wait(account, key));
        }
    }
}

impl Drop for WaitTicket {
    fn drop(&mut self) {
        self.leave();
    }
}
