//! Bytes of the budget that somebody holds.

use std::future::poll_fn;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::account::NOBODY;
use super::thread_reserve::RESERVE;
use super::waiting::WaitTicket;
use super::{PATIENCE, poll_room};

/// Between two looks whether there is enough for a share.
const LOOK: Duration = Duration::from_millis(20);

/// Reserved bytes of the memory budget, returned when dropped. Must be dropped on its own thread.
#[derive(Debug)]
pub(crate) struct Reservation {
    bytes: usize,
    /// Account of the connection that was being polled at the first reservation.
    account: usize,
    flows: bool,
    /// It counts for no connection.
    is_of_nobody: bool,
}

impl Default for Reservation {
    fn default() -> Self {
        Self { bytes: 0, account: NOBODY, flows: false, is_of_nobody: false }
    }
}

impl Reservation {
    /// For bytes on their way to a side that may be slow.
    pub(crate) fn of_flow() -> Self {
        Self { flows: true, ..Self::default() }
    }

    /// For bytes that must not bound what the connection may read.
    pub(crate) fn of_nobody() -> Self {
        Self { is_of_nobody: true, ..Self::default() }
    }

    /// Whether it is for nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// How many bytes it is for.
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
        let (deadline, mut ticket) = (Instant::now() + PATIENCE, WaitTicket::default());
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
        let account = RESERVE.with_borrow_mut(|reserve| {
            let account = match self.bytes {
                0 if !self.is_of_nobody => reserve.accounts.current(),
                _ => self.account,
            };
            reserve.take(account, more, self.flows, force).then_some(account)
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
            let _ = RESERVE.try_with(|reserve| reserve.borrow_mut().put(self.account, less, self.flows));
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.hold(0);
    }
}
