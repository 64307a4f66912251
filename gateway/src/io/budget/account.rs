//! The account of a connection: which bytes count for it.

use std::future::{Future, poll_fn};
use std::pin::Pin;

use super::thread_reserve::RESERVE;

/// The account of a connection, which must stay on its thread. Bytes still held when it is dropped
/// stay counted until they are returned.
#[derive(Debug)]
pub(crate) struct Account {
    at: usize,
}

/// Guard during which the account is the current one.
pub(super) struct Entered {
    before: usize,
}

impl Account {
    /// Opens an account for a new connection of this thread.
    pub(crate) fn open() -> Self {
        Self { at: RESERVE.with_borrow_mut(|reserve| reserve.accounts.open()) }
    }

    /// Wraps the future of the connection: reservations made while it is polled count for this
    /// account.
    pub(crate) fn of<'a, F: Future>(
        &'a self,
        mut connection: Pin<&'a mut F>,
    ) -> impl Future<Output = F::Output> + 'a {
        poll_fn(move |cx| {
            let _entered = self.enter();
            connection.as_mut().poll(cx)
        })
    }

    /// Makes this the current account until the guard is dropped.
    pub(super) fn enter(&self) -> Entered {
        Entered { before: swap(self.at) }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // The access fails only while the thread ends.
        let _ = RESERVE.try_with(|reserve| reserve.borrow_mut().accounts.close(self.at));
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        swap(self.before);
    }
}

fn swap(at: usize) -> usize {
    RESERVE.with_borrow_mut(|reserve| reserve.accounts.enter(at))
}
