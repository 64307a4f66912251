//! The bytes that a thread has taken from the process budget, and their distribution.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::accounts::{Accounts, UNOWNED};
use super::{Budget, LEAST_PORTION};

thread_local! {
    pub(super) static RESERVE: RefCell<ThreadReserve> = RefCell::default();
}

/// Bytes that this thread has reserved from the process budget, and who holds them.
#[derive(Debug, Default)]
pub(super) struct ThreadReserve {
    pub(super) process: Option<Arc<Budget>>,
    bytes: usize,
    /// Whether the thread has reserved more than was available.
    forced: bool,
    /// Quarters of the budget in use at the thread's last change.
    pub(super) used: usize,
    pub(super) accounts: Accounts,
}

/// Serves this thread from `budget` from now on. A thread without a budget has no limit.
pub(crate) fn serve(budget: Arc<Budget>) {
    RESERVE.with_borrow_mut(|reserve| {
        *reserve = ThreadReserve::default();
        reserve.process = Some(budget);
    });
}

impl ThreadReserve {
    /// Returns how much more an account may hold once it holds `more` additional bytes.
    pub(super) fn room(&self, account: usize, more: usize) -> usize {
        let Some(budget) = &self.process else { return usize::MAX };
        let left = (self.bytes + budget.left()).saturating_sub(more);
        match account {
            UNOWNED => left,
            account => left.min(budget.part(left).saturating_sub(self.accounts.held(account) + more)),
        }
    }

    /// Returns how many bytes are left beyond the budget divided by `parts`.
    pub(super) fn left_beyond(&self, parts: usize) -> usize {
        let Some(budget) = &self.process else { return usize::MAX };
        (self.bytes + budget.left()).saturating_sub(budget.limit() / parts)
    }

    /// Returns how many bytes to read at a time, where `most` applies with memory to spare.
    pub(super) fn portion(&self, most: usize) -> usize {
        match self.used {
            ..2 => most,
            2 => most.min(16 * 1024),
            _ => most.min(LEAST_PORTION),
        }
    }

    /// Returns whether the account may read more of a request.
    pub(super) fn has_room(&self, account: usize) -> bool {
        let least = if account == UNOWNED { 1 } else { LEAST_PORTION };
        self.is_plenty(account, least) || self.room(account, least - 1) > 0
    }

    /// Returns whether the account may read more of a response. A connection without unsent output
    /// may always read a little, or the bytes of its own requests could block their responses.
    pub(super) fn has_room_to_respond(&self, account: usize) -> bool {
        self.has_room(account) || self.accounts.is_idle(account) && self.room(UNOWNED, LEAST_PORTION - 1) > 0
    }

    /// Returns whether `more` bytes fit without consulting the shared budget, which is the usual
    /// case.
    fn is_plenty(&self, account: usize, more: usize) -> bool {
        self.used < 2 && self.accounts.held(account) + more < self.bytes
    }

    /// Assigns `bytes` to an account if it may hold them, or in any case with `force`.
    pub(super) fn take(&mut self, account: usize, bytes: usize, flows: bool, force: bool) -> bool {
        if self.process.is_none() {
            return true;
        }
        let has_room = account == UNOWNED
            || self.is_plenty(account, bytes)
            || self.room(account, bytes.saturating_sub(1)) > 0;
        let got = has_room && self.try_take(bytes);
        if !got && let Some(budget) = &self.process {
            budget.refusals.fetch_add(1, Relaxed);
        }
        if !got && force {
            self.force(bytes);
        }
        if got || force {
            self.accounts.add(account, bytes, flows);
        }
        got || force
    }

    fn try_take(&mut self, bytes: usize) -> bool {
        let Some(budget) = &self.process else { return false };
        if self.bytes < bytes {
            let least = bytes - self.bytes;
            let piece = least.max(budget.piece(self.used > 1));
            let taken = if budget.take(piece) {
                piece
            } else if budget.take(least) {
                least
            } else {
                0
            };
            self.used = budget.quarters();
            if taken == 0 {
                return false;
            }
            self.bytes += taken;
        }
        self.bytes -= bytes;
        true
    }

    fn force(&mut self, bytes: usize) {
        let Some(budget) = &self.process else { return };
        let more = bytes.saturating_sub(self.bytes);
        budget.taken.fetch_add(more, SeqCst);
        self.bytes = self.bytes + more - bytes;
        self.forced |= more > 0;
        self.used = budget.quarters();
    }

    /// Takes `bytes` back from an account.
    pub(super) fn put(&mut self, account: usize, bytes: usize, flows: bool) {
        let Some(budget) = &self.process else { return };
        self.bytes += bytes;
        self.accounts.subtract(account, bytes, flows);
        self.forced = self.forced && budget.taken() > budget.limit();
        let keep =
            match self.forced || budget.waiting.would_help(|| budget.threshold(budget.left() + self.bytes)) {
                true => 0,
                false => budget.piece(self.used > 1),
            };
        if self.bytes > 2 * keep {
            let surplus = self.bytes - keep;
            self.bytes = keep;
            budget.give_back(surplus);
            self.used = budget.quarters();
        }
        // The account holds less, so its own waiters may continue even if nothing went back to the
        // process.
        let waiting = self.accounts.waiting(account);
        if !waiting.is_empty() && self.has_room_to_respond(account) {
            budget.waiting.wake_these(waiting);
        }
    }
}

impl Drop for ThreadReserve {
    fn drop(&mut self) {
        if let Some(budget) = &self.process {
            budget.give_back(self.bytes);
        }
    }
}
