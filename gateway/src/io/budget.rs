//! Memory budget of the process for bodies and heads in flight (`body-memory-budget`).
//!
//! Each stream of each connection has a limit of its own, but there are many streams, and a client
//! that reads nothing holds its maximum for as long as it is allowed to. Code that holds bytes
//! across polls therefore takes a [`Reservation`]: for unsent output, replay buffers, request
//! bodies in memory, compressor state and request heads. When the budget is exhausted, optional
//! work is dropped (no replay, no compression, request bodies go to disk), reading waits, and
//! requests that wait too long are ended.
//!
//! Room is checked before a read and counted after it, because the size of a read is not known in
//! advance. All workers together can therefore exceed the budget by one read each. A worker takes
//! bytes from the process in large pieces and serves its connections from these
//! ([`thread_reserve`]), so requests of two workers do not write to the same cache line.
//!
//! # Fair shares
//!
//! The maximum that a connection may hold shrinks with what is left, as switches share memory among
//! queues (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet
//! switches"): with L of B bytes left, it is L³/7B². A single connection therefore gets a tenth of
//! the budget. N greedy connections, one after the other, that never return anything leave 1/√(1 +
//! 2N/7): forty leave more than a quarter, five hundred a twelfth. With the square of L instead of
//! its cube this would be a sixth and a sixtieth. The rule needs no count of connections and has no
//! effect while memory is plentiful.
//!
//! Every connection may hold 8 KiB while any memory is left, and a response continues in small
//! pieces as long as its client takes them. The bytes that a connection holds are counted on its
//! own thread ([`accounts`]).
//!
//! While memory is short, reads are smaller, so that many slow clients can be served with what is
//! left. A stalled client also gets less time, because a few clients that read nothing could
//! otherwise hold all memory for a minute. To extend that time it must take [`progress`] bytes and
//! not just one.

mod account;
mod accounts;
mod reservation;
mod shared_reservation;
#[cfg(test)]
mod tests;
mod thread_reserve;
mod wait_ticket;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::process::per_worker::Padded;

pub(crate) use account::Account;
pub(crate) use reservation::Reservation;
pub(crate) use shared_reservation::SharedReservation;
pub(crate) use thread_reserve::serve;
pub(crate) use wait_ticket::WaitTicket;

use thread_reserve::RESERVE;
use waiting::Waiting;

/// Maximum number of bytes that a worker takes from the process at once.
const PIECE: usize = 256 * 1024;
/// Divisor of the budget for the same, so that the reserves of workers stay a small part of a small
/// budget.
const PIECES: usize = 64;
/// Divisor of the bytes that are left for the same, while memory is short.
const PIECES_OF_REST: usize = 16;
/// Divisor in the maximum of a connection, L³/7B² (see above).
const CONNECTIONS: u128 = 7;
/// Bytes that a connection may hold however little is left: a piece of a body and a head.
const LEAST_PART: usize = 8 * 1024;
/// Bytes that may be read at a time however short memory is.
const LEAST_PORTION: usize = 4 * 1024;
/// Time that a request waits for memory before it is ended.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The memory budget of the process.
#[derive(Debug)]
pub(crate) struct Budget {
    taken: Padded<AtomicUsize>,
    limit: Padded<AtomicUsize>,
    refusals: AtomicU64,
    waiting: Waiting,
}

impl Budget {
    /// Creates a budget of `limit` bytes.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            taken: Padded::default(),
            limit: Padded::new(AtomicUsize::new(limit)),
            refusals: AtomicU64::new(0),
            waiting: Waiting::default(),
        })
    }

    /// Changes the limit. If more is held, readers wait until it was returned.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, SeqCst);
        self.waiting.wake(self.threshold(self.left()));
    }

    /// Returns the bytes that workers have taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(SeqCst)
    }

    /// Returns the limit in bytes.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// Returns how often a task started to wait for memory.
    pub(crate) fn waits(&self) -> u64 {
        self.waiting.count()
    }

    /// Returns how often a reservation found too little memory.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.load(Relaxed)
    }

    /// Returns the bytes that no worker has taken.
    fn left(&self) -> usize {
        self.limit().saturating_sub(self.taken())
    }

    /// Returns the maximum in bytes that a connection may hold when `left` bytes are left.
    fn part(&self, left: usize) -> usize {
        let (left, all) = (left as u128, self.limit().max(1) as u128);
        let part = left * left / all * left / (CONNECTIONS * all);
        usize::try_from(part).unwrap_or(usize::MAX).max(LEAST_PART)
    }

    /// Returns the number of held bytes below which a connection may read more, with `left` bytes
    /// left.
    fn threshold(&self, left: usize) -> usize {
        match left.checked_sub(LEAST_PORTION) {
            Some(rest) => self.part(rest),
            None => left.min(1),
        }
    }

    /// Returns how many quarters of the budget are in use.
    fn quarters(&self) -> usize {
        self.taken().saturating_mul(4) / self.limit().max(1)
    }

    /// Returns the bytes that a worker takes at once and keeps. `short`: consult what is left.
    fn piece(&self, short: bool) -> usize {
        let piece = self.limit() / PIECES;
        let most = if short { self.left() / PIECES_OF_REST } else { PIECE };
        piece.min(most).clamp(1, PIECE)
    }

    /// Takes `bytes` from the budget. Returns false if fewer are left.
    fn take(&self, bytes: usize) -> bool {
        let limit = self.limit();
        let fits = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= limit);
        self.taken.fetch_update(SeqCst, Relaxed, fits).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, SeqCst);
        self.waiting.wake(self.threshold(self.left()));
    }
}

/// Returns whether the current connection may read more of a request.
pub(crate) fn has_room() -> bool {
    RESERVE.with_borrow(|stock| stock.has_room(stock.accounts.current()))
}

/// Returns whether at least half of the budget is left.
pub(crate) fn has_plenty() -> bool {
    RESERVE
        .with_borrow(|stock| stock.process.as_ref().is_none_or(|budget| budget.taken() <= budget.limit() / 2))
}

/// Returns whether the current connection may read more of a response.
pub(crate) fn has_room_to_respond() -> bool {
    RESERVE.with_borrow(|stock| stock.has_room_to_respond(stock.accounts.current()))
}

/// Ready when the current connection may read more of a request.
pub(crate) fn poll_room(cx: &mut Context<'_>, ticket: &mut WaitTicket) -> Poll<()> {
    poll_until(has_room, cx, ticket)
}

/// Ready when the current connection may read more of a response.
pub(crate) fn poll_room_to_respond(cx: &mut Context<'_>, ticket: &mut WaitTicket) -> Poll<()> {
    poll_until(has_room_to_respond, cx, ticket)
}

fn poll_until(has_room: fn() -> bool, cx: &mut Context<'_>, ticket: &mut WaitTicket) -> Poll<()> {
    if has_room() {
        ticket.leave();
        return Poll::Ready(());
    }
    RESERVE.with_borrow_mut(|stock| ticket.wait(stock, cx));
    // Checked again: memory may have been returned before this waiter was registered.
    match has_room() {
        true => {
            ticket.leave();
            Poll::Ready(())
        }
        false => Poll::Pending,
    }
}

/// Returns the time that a client may stall, where `most` applies with memory to spare.
pub(crate) fn stall_limit(most: Duration) -> Duration {
    match RESERVE.with_borrow(|stock| stock.used) {
        ..2 => most,
        2 => most / 4,
        _ => most / 12,
    }
}

/// Returns the bytes that a client must take within that time to extend it.
pub(crate) fn progress() -> usize {
    match RESERVE.with_borrow(|stock| stock.used) {
        ..2 => 1,
        _ => LEAST_PORTION,
    }
}

/// Returns how many bytes to read at a time, where `most` applies with memory to spare.
pub(crate) fn portion(most: usize) -> usize {
    RESERVE.with_borrow(|stock| match stock.portion(most) {
        some if some == most => most,
        some => some.min(stock.room(stock.accounts.current(), 0).max(LEAST_PORTION)),
    })
}

/// Returns how many bytes of a response an endpoint may send before any were taken, where `most`
/// applies with memory to spare.
pub(crate) fn window(most: usize) -> usize {
    RESERVE.with_borrow(|stock| stock.portion(most))
}

/// Returns how many bytes may be reserved before they arrive: a part of what is left beyond half of
/// the budget.
pub(crate) fn ahead() -> usize {
    RESERVE.with_borrow(|stock| stock.left_beyond(2)) / PIECES_OF_REST
}

/// Returns how many bytes are left beyond a quarter of the budget.
pub(crate) fn left_beyond_quarter() -> usize {
    RESERVE.with_borrow(|stock| stock.left_beyond(4))
}
