//! Who waits for memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use super::account::NOBODY;
use super::stock::{STOCK, Stock};
use super::{Budget, LEAST_PORTION};

/// What the connection that waits would hold with a little more, and the number of the ticket.
pub(super) type Key = (usize, u64);

/// Those who wait. Touched only while memory is short.
#[derive(Debug)]
pub(super) struct Waiting {
    /// That of whoever comes first; more than anybody can hold where nobody waits.
    least: AtomicUsize,
    /// Who holds least comes first, and may go on first.
    wakers: Mutex<Wakers>,
}

#[derive(Debug, Default)]
struct Wakers {
    /// Number of the last ticket.
    last: u64,
    by_held: BTreeMap<Key, Waker>,
}

/// A place among those who wait for memory.
#[derive(Debug, Default)]
pub(crate) struct Ticket {
    place: Option<Place>,
}

#[derive(Debug)]
struct Place {
    budget: Arc<Budget>,
    account: usize,
    key: Key,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { least: AtomicUsize::new(usize::MAX), wakers: Mutex::default() }
    }
}

impl Waiting {
    /// How often somebody has begun to wait.
    pub(super) fn count(&self) -> u64 {
        self.wakers().last
    }

    /// Whether somebody could go on if connections might hold so much.
    pub(super) fn is_anybody_helped(&self, part: impl FnOnce() -> usize) -> bool {
        let least = self.least.load(SeqCst);
        least < usize::MAX && least < part()
    }

    /// Wakes all who hold less than this.
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

    /// Wakes these. They keep their places until they say otherwise.
    pub(super) fn wake_these(&self, keys: &[Key]) {
        let wakers = self.wakers();
        for key in keys {
            if let Some(waker) = wakers.by_held.get(key) {
                waker.wake_by_ref();
            }
        }
    }

    fn insert(&self, key: Key, waker: &Waker) {
        let mut wakers = self.wakers();
        wakers.by_held.insert(key, waker.clone());
        self.look(&wakers);
    }

    fn remove(&self, key: Key) {
        let mut wakers = self.wakers();
        wakers.by_held.remove(&key);
        self.look(&wakers);
    }

    /// To be called with every change.
    fn look(&self, wakers: &Wakers) {
        self.least.store(wakers.by_held.first_key_value().map_or(usize::MAX, |((held, _), _)| *held), SeqCst);
    }

    fn wakers(&self) -> MutexGuard<'_, Wakers> {
        // A map of wakers is whole whatever panicked.
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Waits with the connection that is being polled, with what it holds now.
    pub(super) fn wait(&mut self, stock: &mut Stock, cx: &Context<'_>) {
        let Some(budget) = stock.process.clone() else { return };
        let account = stock.accounts.current();
        let held = match account {
            // Who has nothing on its way waits for anything at all.
            account if account == NOBODY || stock.accounts.is_idle(account) => 0,
            account => stock.accounts.held(account) + LEAST_PORTION - 1,
        };
        let number = match self.place.take() {
            Some(place) => {
                place.budget.waiting.remove(place.key);
                stock.accounts.end_to_wait(place.account, place.key);
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
        stock.accounts.begin_to_wait(account, key);
        self.place = Some(Place { budget, account, key });
    }

    pub(super) fn leave(&mut self) {
        if let Some(Place { budget, account, key }) = self.place.take() {
            budget.waiting.remove(key);
            // At the end of a thread nobody counts any more.
            let _ = STOCK.try_with(|stock| stock.borrow_mut().accounts.end_to_wait(account, key));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave();
    }
}
