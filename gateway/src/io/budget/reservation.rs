//! Reserved bytes of the budget.

use std::future::poll_fn;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::accounts::UNOWNED;
use super::thread_reserve::RESERVE;
use super::wait_ticket::WaitTicket;
use super::{WAIT_TIMEOUT, poll_room};

/// Interval of attempts while there is some memory, but not enough.
const LOOK: Duration = Duration::from_millis(20);

/// Reserved bytes of the memory budget, returned when dropped. Must be dropped on its own thread.
#[derive(Debug)]
pub(crate) struct Reservation {
    bytes: usize,
    /// Account of the connection that was being polled at the first reservation.
    account: usize,
    flows: bool,
    /// The reservation counts for no connection.
    is_unowned: bool,
}

impl Default for Reservation {
    fn default() -> Self {
        Self { bytes: 0, account: UNOWNED, flows: false, is_unowned: false }
    }
}

impl Reservation {
    /// Creates a reservation for bytes on their way to a side that may be slow.
    pub(crate) fn of_flow() -> Self {
        Self { flows: true, ..Self::default() }
    }

    /// Creates a reservation that does not reduce what the connection may read.
    pub(crate) fn unowned() -> Self {
        Self { is_unowned: true, ..Self::default() }
    }

    /// Returns whether no bytes are reserved.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the reserved bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Resizes the reservation to `bytes`. Returns false, without a change, if they are not
    /// available.
    #[must_use]
    pub(crate) fn try_hold(&mut self, bytes: usize) -> bool {
        if bytes <= self.bytes {
            self.shrink(bytes);
            return true;
        }
        self.grow(bytes, false)
    }

    /// Resizes the reservation to `bytes` as soon as they are available. Returns false, without a
    /// change, if they are not available within [`WAIT_TIMEOUT`].
    pub(crate) async fn hold_in_time(&mut self, bytes: usize) -> bool {
        let (deadline, mut ticket) = (Instant::now() + WAIT_TIMEOUT, WaitTicket::default());
        while !self.try_hold(bytes) {
            let room = poll_fn(|cx| poll_room(cx, &mut ticket));
            if timeout_at(deadline, room).await.is_err() {
                return false;
            }
            if self.try_hold(bytes) {
                return true;
            }
            // Some memory is available, but less than `bytes`.
            sleep(LOOK).await;
        }
        true
    }

    /// Resizes the reservation to `bytes` in any case, for bytes that were already read.
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
                0 if !self.is_unowned => reserve.accounts.current(),
                _ => self.account,
            };
            reserve.take(account, more, self.flows, force).then_some(account)
        });
        let Some(account) = account else { return false };
        (self.bytes, self.account) = (bytes, account);
        true
    }

    /// Reduces the reservation to at most `bytes`.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        if less > 0 {
            self.bytes = bytes;
            // The access fails only while the thread ends.
            let _ = RESERVE.try_with(|reserve| reserve.borrow_mut().put(self.account, less, self.flows));
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.hold(0);
    }
}
