//! Bytes of the budget that somebody holds.

use std::future::poll_fn;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::account::NOBODY;
use super::stock::STOCK;
use super::waiting::Ticket;
use super::{PATIENCE, poll_room};

/// Between two looks whether there is enough for a share.
const LOOK: Duration = Duration::from_millis(20);

/// Bytes that somebody holds. They go back when it is dropped, which must be on the same thread.
#[derive(Debug)]
pub(crate) struct Share {
    bytes: usize,
    /// Of the connection that was being polled when it became one of some bytes.
    account: usize,
    flows: bool,
}

impl Default for Share {
    fn default() -> Self {
        Self { bytes: 0, account: NOBODY, flows: false }
    }
}

impl Share {
    /// For bytes on their way to a side that may be slow.
    pub(crate) fn of_flow() -> Self {
        Self { flows: true, ..Self::default() }
    }

    /// How many bytes it is for.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes it a share of so many bytes, if they are there; else it stays what it was.
    #[must_use]
    pub(crate) fn try_hold(&mut self, bytes: usize) -> bool {
        if bytes <= self.bytes {
            self.shrink(bytes);
            return true;
        }
        self.grow(bytes, false)
    }

    /// Makes it a share of so many bytes, as soon as they are there, but no later than [`PATIENCE`]
    /// from now. False when they are not; then it stays what it was.
    pub(crate) async fn hold_in_time(&mut self, bytes: usize) -> bool {
        let (deadline, mut ticket) = (Instant::now() + PATIENCE, Ticket::default());
        while !self.try_hold(bytes) {
            let room = poll_fn(|cx| poll_room(cx, &mut ticket));
            if timeout_at(deadline, room).await.is_err() {
                return false;
            }
            if self.try_hold(bytes) {
                return true;
            }
            // There is some memory, but not enough for this.
            sleep(LOOK).await;
        }
        true
    }

    /// Makes it a share of so many bytes, in any case: for what has been read already.
    #[inline]
    pub(crate) fn hold(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.grow(bytes, true);
        } else {
            self.shrink(bytes);
        }
    }

    fn grow(&mut self, bytes: usize, force: bool) -> bool {
        let more = bytes - self.bytes;
        let account = STOCK.with_borrow_mut(|stock| {
            let account = if self.bytes == 0 { stock.accounts.current() } else { self.account };
            stock.take(account, more, self.flows, force).then_some(account)
        });
        let Some(account) = account else { return false };
        (self.bytes, self.account) = (bytes, account);
        true
    }

    /// Gives back what it has beyond so many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        if less > 0 {
            self.bytes = bytes;
            // At the end of a thread there is nobody left to give it to.
            let _ = STOCK.try_with(|stock| stock.borrow_mut().put(self.account, less, self.flows));
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.hold(0);
    }
}
