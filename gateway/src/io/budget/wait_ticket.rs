//! The position of a request in the queue for memory.

use std::sync::Arc;
use std::task::Context;

use super::accounts::UNOWNED;
use super::thread_reserve::{RESERVE, ThreadReserve};
use super::waiting::WaitKey;
use super::{Budget, LEAST_PORTION};

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
            None => budget.waiting.next_number(),
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
