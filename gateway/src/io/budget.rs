//! Memory for bodies and heads in flight, for the whole process (`body-memory-budget`).
//!
//! Each stream of each connection is bounded by itself, but there are many of them, and clients that read nothing
//! hold what each may hold for as long as they are let. So whoever keeps bytes beyond the moment takes a [`Share`]
//! for them: what a slow side has not taken, what is kept for another attempt, request bodies in memory, the state of
//! compressors, heads of requests under way. Where there is nothing left, what can be done without is not done
//! (no replay, no compression, a request body goes to disk), reading waits, and after a while it is ended.
//!
//! Reading is asked about before and counted after, because nobody knows how much will come: so all workers together
//! can be above the budget by one read each. A worker takes bytes from the process in large pieces and serves its
//! connections from those, so that requests of two workers write no common cache line.
//!
//! While memory is short, less is read at a time, so that many slow clients can be served from what is left; and a
//! client that stalls has less time, because a few clients that read nothing could hold all there is for a minute.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::per_worker::Padded;

/// What a worker takes at once, unless the budget is small.
const PIECE: usize = 256 * 1024;
/// A small budget is divided so that what workers have in stock stays a small part of it.
const PIECES: usize = 64;
/// How long a request waits for memory before it is ended.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The budget of the process.
#[derive(Debug)]
pub(crate) struct Budget {
    taken: Padded<AtomicUsize>,
    limit: Padded<AtomicUsize>,
    /// Somebody waits.
    wanted: AtomicBool,
    refusals: AtomicU64,
    waiting: Mutex<Waiting>,
}

/// Who waits, by ticket. Touched only while there is nothing left.
#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

/// What this thread has taken from the process and not given out.
#[derive(Debug, Default)]
struct Stock {
    process: Option<Arc<Budget>>,
    bytes: usize,
    /// It has taken more than there was.
    forced: bool,
    /// How many quarters of all were in use when this thread last took some or gave some back.
    used: usize,
}

thread_local! {
    static STOCK: RefCell<Stock> = RefCell::default();
}

/// Bytes that somebody holds. They go back when it is dropped, which must be on the same thread.
#[derive(Debug, Default)]
pub(crate) struct Share {
    bytes: usize,
}

/// A place among those who wait for memory.
#[derive(Debug, Default)]
pub(crate) struct Ticket {
    place: Option<(Arc<Budget>, u64)>,
}

impl Budget {
    /// A budget of so many bytes.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            taken: Padded::default(),
            limit: Padded::new(AtomicUsize::new(limit)),
            wanted: AtomicBool::new(false),
            refusals: AtomicU64::new(0),
            waiting: Mutex::default(),
        })
    }

    /// Changes it. What is held beyond a smaller one is waited for.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, SeqCst);
        self.wake();
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
        self.waiting().next
    }

    /// How often there was not enough for somebody.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.load(Relaxed)
    }

    /// How many quarters of it are in use.
    fn quarters(&self) -> usize {
        self.taken().saturating_mul(4) / self.limit().max(1)
    }

    fn piece(&self) -> usize {
        (self.limit() / PIECES).clamp(1, PIECE)
    }

    fn has_room(&self) -> bool {
        self.taken() < self.limit()
    }

    /// Takes so many bytes, if that many are left.
    fn take(&self, bytes: usize) -> bool {
        let limit = self.limit();
        let fits = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= limit);
        self.taken.fetch_update(SeqCst, Relaxed, fits).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, SeqCst);
        if self.wanted.load(SeqCst) {
            self.wake();
        }
    }

    fn wake(&self) {
        let wakers = {
            let mut waiting = self.waiting();
            self.wanted.store(false, SeqCst);
            std::mem::take(&mut waiting.wakers)
        };
        wakers.into_values().for_each(Waker::wake);
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        // A map of wakers is whole whatever panicked.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// From now on this thread takes from `budget`. A thread without one has no bound.
pub(crate) fn serve(budget: Arc<Budget>) {
    STOCK.with_borrow_mut(|stock| *stock = Stock { process: Some(budget), ..Stock::default() });
}

/// Whether more may be read.
pub(crate) fn has_room() -> bool {
    STOCK
        .with_borrow(|stock| stock.bytes > 0 || stock.process.as_ref().is_none_or(|budget| budget.has_room()))
}

/// Whether at least half of all is left.
pub(crate) fn has_plenty() -> bool {
    STOCK
        .with_borrow(|stock| stock.process.as_ref().is_none_or(|budget| budget.taken() <= budget.limit() / 2))
}

/// Ready when more may be read.
pub(crate) fn poll_room(cx: &mut Context<'_>, ticket: &mut Ticket) -> Poll<()> {
    if has_room() {
        ticket.leave();
        return Poll::Ready(());
    }
    let Some(budget) = STOCK.with_borrow(|stock| stock.process.clone()) else { return Poll::Ready(()) };
    ticket.wait(&budget, cx);
    // Somebody may have given some back meanwhile, and not seen that it was wanted.
    match budget.has_room() {
        true => {
            ticket.leave();
            Poll::Ready(())
        }
        false => Poll::Pending,
    }
}

/// How long a client may let what it is sent wait, if it could wait for `most` with memory to spare.
pub(crate) fn patience(most: Duration) -> Duration {
    match STOCK.with_borrow(|stock| stock.used) {
        ..2 => most,
        2 => most / 4,
        _ => most / 12,
    }
}

/// How much may be read at a time by whoever could read `most` with memory to spare.
pub(crate) fn portion(most: usize) -> usize {
    match STOCK.with_borrow(|stock| stock.used) {
        ..2 => most,
        2 => most.min(16 * 1024),
        _ => most.min(4 * 1024),
    }
}

impl Share {
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
        let more = bytes - self.bytes;
        let got = STOCK.with_borrow_mut(|stock| stock.take(more));
        if got {
            self.bytes = bytes;
        }
        got
    }

    /// Makes it a share of so many bytes, in any case: for what has been read already.
    #[inline]
    pub(crate) fn hold(&mut self, bytes: usize) {
        if bytes == self.bytes {
            return;
        }
        if bytes > self.bytes && !self.try_hold(bytes) {
            STOCK.with_borrow_mut(|stock| stock.force(bytes - self.bytes));
            self.bytes = bytes;
        } else {
            self.shrink(bytes);
        }
    }

    fn shrink(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        if less > 0 {
            self.bytes = bytes;
            // At the end of a thread there is nobody left to give it to.
            let _ = STOCK.try_with(|stock| stock.borrow_mut().put(less));
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.hold(0);
    }
}

impl Stock {
    fn take(&mut self, bytes: usize) -> bool {
        let Some(budget) = &self.process else { return true };
        if self.bytes < bytes {
            let least = bytes - self.bytes;
            let piece = least.max(budget.piece());
            let taken = if budget.take(piece) {
                piece
            } else if budget.take(least) {
                least
            } else {
                0
            };
            self.used = budget.quarters();
            if taken == 0 {
                budget.refusals.fetch_add(1, Relaxed);
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

    fn put(&mut self, bytes: usize) {
        let Some(budget) = &self.process else { return };
        self.bytes += bytes;
        self.forced = self.forced && budget.taken() > budget.limit();
        let keep = match self.forced || budget.wanted.load(Relaxed) {
            true => 0,
            false => budget.piece(),
        };
        if self.bytes > 2 * keep {
            let surplus = self.bytes - keep;
            self.bytes = keep;
            budget.give_back(surplus);
            self.used = budget.quarters();
        }
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        if let Some(budget) = &self.process {
            budget.give_back(self.bytes);
        }
    }
}

impl Ticket {
    fn wait(&mut self, budget: &Arc<Budget>, cx: &Context<'_>) {
        let mut waiting = budget.waiting();
        let id = match &self.place {
            Some((_, id)) => *id,
            None => {
                waiting.next += 1;
                self.place = Some((budget.clone(), waiting.next));
                waiting.next
            }
        };
        waiting.wakers.insert(id, cx.waker().clone());
        budget.wanted.store(true, SeqCst);
    }

    fn leave(&mut self) {
        if let Some((budget, id)) = self.place.take() {
            budget.waiting().wakers.remove(&id);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    /// On a thread of its own, which then has a budget.
    fn with(budget: &Arc<Budget>, job: impl FnOnce() + Send + 'static) {
        let budget = budget.clone();
        let run = move || {
            serve(budget);
            job();
        };
        thread::spawn(run).join().unwrap();
    }

    #[test]
    fn what_is_held_goes_back_in_the_end() {
        let budget = Budget::new(10 << 20);
        with(&budget, || {
            let (mut one, mut other) = (Share::default(), Share::default());
            assert!(one.try_hold(3 << 20) && other.try_hold(5 << 20));
            assert!(!one.try_hold(9 << 20) && one.bytes() == 3 << 20);
            drop(other);
            assert!(one.try_hold(9 << 20));
            one.hold(20 << 20);
            assert!(!has_room());
            one.hold(1);
            assert!(has_room());
        });
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn a_thread_without_a_budget_has_no_bound() {
        thread::spawn(|| {
            let mut share = Share::default();
            assert!(share.try_hold(usize::MAX) && has_room());
            assert_eq!(patience(Duration::from_secs(60)), Duration::from_secs(60));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn small_things_do_not_touch_what_workers_share() {
        let budget = Budget::new(128 << 20);
        let shared = budget.clone();
        with(&budget, move || {
            let mut first = Share::default();
            first.hold(100);
            let taken = shared.taken();
            for bytes in 1..10_000 {
                let mut share = Share::default();
                share.hold(bytes);
            }
            assert_eq!(shared.taken(), taken);
        });
    }

    #[test]
    fn who_waits_is_woken_by_another_thread() {
        let budget = Budget::new(1 << 20);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (full, is_full) = std::sync::mpsc::channel();
        let (waits, is_waiting) = std::sync::mpsc::channel();
        let holder = thread::spawn({
            let budget = budget.clone();
            move || {
                serve(budget);
                let mut share = Share::default();
                share.hold(1 << 20);
                full.send(()).unwrap();
                is_waiting.recv().unwrap();
            }
        });
        with(&budget, move || {
            is_full.recv().unwrap();
            runtime.block_on(async {
                let mut ticket = Ticket::default();
                std::future::poll_fn(|cx| {
                    let room = poll_room(cx, &mut ticket);
                    let _ = waits.send(());
                    room
                })
                .await;
            });
        });
        holder.join().unwrap();
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn a_stalled_client_has_less_time_and_less_is_read_while_memory_is_short() {
        let budget = Budget::new(64 << 20);
        with(&budget, || {
            let minute = Duration::from_secs(60);
            let mut share = Share::default();
            for (mebibytes, expected, read) in
                [(1, 60, 64), (31, 60, 64), (33, 15, 16), (49, 5, 4), (64, 5, 4), (1, 60, 64)]
            {
                share.hold(mebibytes << 20);
                assert_eq!(patience(minute), Duration::from_secs(expected), "{mebibytes}");
                assert_eq!(portion(64 * 1024), read * 1024, "{mebibytes}");
            }
        });
    }

    proptest! {
        #[test]
        fn no_more_is_lent_than_there_is_and_all_comes_back(
            limit in 1_usize..2 << 20,
            steps in prop::collection::vec((0_usize..6, 0_usize..1 << 20, any::<bool>()), 0..60),
        ) {
            let budget = Budget::new(limit);
            let shared = budget.clone();
            with(&budget, move || {
                let mut shares: [Share; 6] = Default::default();
                for (index, bytes, force) in steps {
                    let others: usize = shares.iter().map(Share::bytes).sum::<usize>() - shares[index].bytes();
                    match force {
                        true => shares[index].hold(bytes),
                        false => {
                            let grows = bytes > shares[index].bytes();
                            let got = shares[index].try_hold(bytes);
                            assert!(!(got && grows) || others + bytes <= limit);
                        }
                    }
                    let held: usize = shares.iter().map(Share::bytes).sum();
                    assert!(held <= shared.taken());
                }
            });
            prop_assert_eq!(budget.taken(), 0);
        }
    }
}
