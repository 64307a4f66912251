//! Memory for bodies and heads in flight, for the whole process (`body-memory-budget`).
//!
//! Each stream of each connection is bounded by itself, but there are many of them, and clients that read nothing
//! hold what each may hold for as long as they are let. So whoever keeps bytes beyond the moment takes a [`Reservation`]
//! for them: what a slow side has not taken, what is kept for another attempt, request bodies in memory, the state of
//! compressors, heads of requests under way. Where there is nothing left, what can be done without is not done
//! (no replay, no compression, a request body goes to disk), reading waits, and after a while it is ended.
//!
//! Reading is asked about before and counted after, because nobody knows how much will come: so all workers together
//! can be above the budget by one read each. A worker takes bytes from the process in large pieces and serves its
//! connections from those (`stock`), so that requests of two workers write no common cache line.
//!
//! # Fair shares
//!
//! How much a connection may hold shrinks with what is left, as switches share their memory among queues (Choudhury and
//! Hahne, "Dynamic queue length thresholds for shared-memory packet switches"): with L of B bytes left it is L³/7B². So
//! a single one gets a tenth of all, and N greedy ones, one after the other, that never give anything back, leave
//! 1/√(1 + 2N/7): forty of them more than a quarter, and five hundred a twelfth. With the square of L in place of its cube it
//! would be a sixth and a sixtieth. It needs no count of connections, and nobody notices it while memory is plenty.
//! 8 KiB are for everybody while there are any, and a response may go on in small pieces as long as its client takes them. What a connection holds is counted on its own thread (`account`).
//!
//! While memory is short, less is read at a time, so that many slow clients can be served from what is left; and a
//! client that stalls has less time, because a few clients that read nothing could hold all there is for a minute. It must take some of what it has
//! for that, and not just a byte.

mod account;
mod reservation;
#[cfg(test)]
mod tests;
mod thread_reserve;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::per_worker::Padded;

pub(crate) use account::Account;
pub(crate) use reservation::Reservation;
pub(crate) use thread_reserve::serve;
pub(crate) use waiting::WaitTicket;

use thread_reserve::RESERVE;
use waiting::Waiting;

/// What a worker takes at once, unless the budget is small.
const PIECE: usize = 256 * 1024;
/// A small budget is divided so that what workers have in stock stays a small part of it.
const PIECES: usize = 64;
/// The same of what is left of it.
const PIECES_OF_REST: usize = 16;
/// Of what is left, and twice of the part that this is of all, a connection may hold one of so many.
const CONNECTIONS: u128 = 7;
/// What a connection may hold however little is left: a piece of a body beside a head.
const LEAST_PART: usize = 8 * 1024;
/// What may be read at a time however short memory is.
const LEAST_PORTION: usize = 4 * 1024;
/// How long a request waits for memory before it is ended.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The budget of the process.
#[derive(Debug)]
pub(crate) struct Budget {
    taken: Padded<AtomicUsize>,
    limit: Padded<AtomicUsize>,
    refusals: AtomicU64,
    waiting: Waiting,
}

impl Budget {
    /// A budget of so many bytes.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            taken: Padded::default(),
            limit: Padded::new(AtomicUsize::new(limit)),
            refusals: AtomicU64::new(0),
            waiting: Waiting::default(),
        })
    }

    /// Changes it. What is held beyond a smaller one is waited for.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, SeqCst);
        self.waiting.wake(self.threshold(self.left()));
    }

    /// Bytes that workers have taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(SeqCst)
    }

    /// Bytes that there are.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// How often somebody has begun to wait.
    pub(crate) fn waits(&self) -> u64 {
        self.waiting.count()
    }

    /// How often there was not enough for somebody.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.load(Relaxed)
    }

    /// Bytes that nobody has taken.
    fn left(&self) -> usize {
        self.limit().saturating_sub(self.taken())
    }

    /// How much a connection may hold when so much is left.
    fn part(&self, left: usize) -> usize {
        let (left, all) = (left as u128, self.limit().max(1) as u128);
        let part = left * left / all * left / (CONNECTIONS * all);
        usize::try_from(part).unwrap_or(usize::MAX).max(LEAST_PART)
    }

    /// Who holds less than this may read more when so much is left.
    fn threshold(&self, left: usize) -> usize {
        match left.checked_sub(LEAST_PORTION) {
            Some(rest) => self.part(rest),
            None => left.min(1),
        }
    }

    /// How many quarters of it are in use.
    fn quarters(&self) -> usize {
        self.taken().saturating_mul(4) / self.limit().max(1)
    }

    /// What a worker takes at once, and keeps. `short` says whether it is worth a look at what is left.
    fn piece(&self, short: bool) -> usize {
        let piece = self.limit() / PIECES;
        let most = if short { self.left() / PIECES_OF_REST } else { PIECE };
        piece.min(most).clamp(1, PIECE)
    }

    /// Takes so many bytes, if that many are left.
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

/// Whether more may be read.
pub(crate) fn has_room() -> bool {
    RESERVE.with_borrow(|stock| stock.has_room(stock.accounts.current()))
}

/// Whether at least half of all is left.
pub(crate) fn has_plenty() -> bool {
    RESERVE
        .with_borrow(|stock| stock.process.as_ref().is_none_or(|budget| budget.taken() <= budget.limit() / 2))
}

/// Whether more of a response may be read.
pub(crate) fn has_room_to_respond() -> bool {
    RESERVE.with_borrow(|stock| stock.has_room_to_respond(stock.accounts.current()))
}

/// Ready when more may be read.
pub(crate) fn poll_room(cx: &mut Context<'_>, ticket: &mut WaitTicket) -> Poll<()> {
    poll_until(has_room, cx, ticket)
}

/// Ready when more of a response may be read.
pub(crate) fn poll_room_to_respond(cx: &mut Context<'_>, ticket: &mut WaitTicket) -> Poll<()> {
    poll_until(has_room_to_respond, cx, ticket)
}

fn poll_until(has_room: fn() -> bool, cx: &mut Context<'_>, ticket: &mut WaitTicket) -> Poll<()> {
    if has_room() {
        ticket.leave();
        return Poll::Ready(());
    }
    RESERVE.with_borrow_mut(|stock| ticket.wait(stock, cx));
    // Somebody may have given some back meanwhile, and not seen that it was wanted.
    match has_room() {
        true => {
            ticket.leave();
            Poll::Ready(())
        }
        false => Poll::Pending,
    }
}

/// How long a client may let what it is sent wait, if it could wait for `most` with memory to spare.
pub(crate) fn patience(most: Duration) -> Duration {
    match RESERVE.with_borrow(|stock| stock.used) {
        ..2 => most,
        2 => most / 4,
        _ => most / 12,
    }
}

/// How many bytes a client must take in that time to have more of it.
pub(crate) fn progress() -> usize {
    match RESERVE.with_borrow(|stock| stock.used) {
        ..2 => 1,
        _ => LEAST_PORTION,
    }
}

/// How much may be read at a time by whoever could read `most` with memory to spare.
pub(crate) fn portion(most: usize) -> usize {
    RESERVE.with_borrow(|stock| match stock.portion(most) {
        some if some == most => most,
        some => some.min(stock.room(stock.accounts.current(), 0).max(LEAST_PORTION)),
    })
}

/// How much an endpoint may send of a response before any of it was taken, if that could be `most` with memory to spare.
pub(crate) fn window(most: usize) -> usize {
    RESERVE.with_borrow(|stock| stock.portion(most))
}

/// How many bytes may be reserved before they come: a part of what is left beyond half of all.
pub(crate) fn ahead() -> usize {
    RESERVE.with_borrow(|stock| stock.left_beyond(2)) / PIECES_OF_REST
}

/// How many bytes are left beyond a quarter of all.
pub(crate) fn left_beyond_quarter() -> usize {
    RESERVE.with_borrow(|stock| stock.left_beyond(4))
}
