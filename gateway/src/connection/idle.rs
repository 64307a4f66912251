//! Client connections without a request in progress, which are closed to admit new ones at the
//! connection limit, and when they have waited too long for a request.
//!
//! A connection is idle while it is silent before its first request, keeps alive, sends an
//! incomplete head, or lingers after its last response. Without this, idle connections lock out new
//! clients until their timeouts end. nginx closes reusable connections for the same reason.
//!
//! Each worker has a table with one number for each of its connections: when the connection became
//! idle, and what it waits for. Only the connection writes it while it serves requests, without a
//! lock; any worker reads all tables when the limit is reached, marks the oldest idle connection,
//! and wakes its task, which closes it. Each worker looks at its own table from time to time
//! ([`expiry`]), so that a connection between two requests needs neither a timer nor a place among
//! those that shutdown wakes.

pub(crate) mod expiry;

use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::process::per_worker::{Padded, PerWorker};
use expiry::WaitLimits;

/// State of a connection that must not be closed: a request is in progress, or the slot is free.
const BUSY: u64 = 0;
/// State of a connection that was chosen to be closed.
const CHOSEN: u64 = 1;
/// Bits of a state that hold the [`IdleWait`]. The others hold a time in nanoseconds from the
/// start of the process, at least 1.
const WAIT_BITS: u32 = 2;
/// The least state of an idle connection.
const EPOCH: u64 = 1 << WAIT_BITS;

/// Slots in the first chunk of a table; each further chunk has twice as many as the one before.
const FIRST_CHUNK: usize = 64;
/// Chunks of a table: enough for 2^31 connections.
const CHUNKS: usize = 25;
/// Connections that one scan of the tables finds.
const CANDIDATES: usize = 32;
/// Time between two scans if the first one found no idle connection.
const SCAN_INTERVAL: Duration = Duration::from_millis(1);

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The idle connections of all workers.
#[derive(Debug, Default)]
pub(crate) struct IdleConnections {
    tables: PerWorker<Table>,
    scan: Mutex<Scan>,
}

/// The connections of one worker.
#[derive(Debug, Default)]
struct Table {
    chunks: [OnceLock<Box<[AtomicU64]>>; CHUNKS],
    slots: Mutex<Slots>,
}

/// What is touched only when a connection begins, ends, or is chosen.
#[derive(Debug, Default)]
struct Slots {
    /// By slot; `None` for a free one, and for a connection whose task has not run yet.
    wakers: Vec<Option<Waker>>,
    free: Vec<u32>,
}

/// The result of the last scan.
#[derive(Debug, Default)]
struct Scan {
    /// Connections to choose, the oldest last.
    candidates: Vec<Candidate>,
    /// When the last scan found nothing.
    empty_since: Option<Instant>,
}

/// What an idle connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum IdleWait {
    /// Something with a time limit of its own.
    Other = 0,
    /// The first byte of the first request.
    FirstRequest = 1,
    /// The first byte of another request.
    NextRequest = 2,
}

/// An idle connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Its state when it was found, which begins with the time when it became idle.
    since: u64,
    /// Index of its worker's table.
    table: usize,
    slot: u32,
}

/// The slot of one connection, which only the task of that connection uses.
#[derive(Debug)]
pub(crate) struct IdleSlot {
    table: Arc<Padded<Table>>,
    slot: u32,
}

impl IdleConnections {
    /// A slot for a new connection of this worker, which is idle from now on.
    pub(crate) fn slot(&self) -> IdleSlot {
        let table = self.tables.here().clone();
        let slot = table.take();
        let slot = IdleSlot { table, slot };
        slot.begin(Instant::now());
        slot
    }

    /// Has the oldest idle connection closed. Returns whether there was one.
    pub(crate) fn close_oldest(&self) -> bool {
        let now = Instant::now();
        let mut scan = lock(&self.scan);
        let mut scanned = false;
        loop {
            while let Some(candidate) = scan.candidates.pop() {
                let table = self.tables.get(candidate.table);
                if table.is_some_and(|table| table.choose(candidate.slot, candidate.since)) {
                    return true;
                }
            }
            if scanned || scan.empty_since.is_some_and(|since| now < since + SCAN_INTERVAL) {
                return false;
            }
            scan.candidates = self.oldest();
            scan.empty_since = scan.candidates.is_empty().then_some(now);
            scanned = true;
        }
    }

    /// Has the oldest idle connections closed, with one look at all of them, until as many are
    /// being closed as `excess` returns.
    pub(crate) fn close(&self, excess: impl FnOnce() -> usize) {
        // One worker at a time, so that each counts what the others have chosen.
        let _scan = lock(&self.scan);
        // Counted before `excess`: one that ends in between makes both smaller.
        let states = self.tables.all().flat_map(Table::states);
        let closing = states.filter(|state| state.load(Relaxed) == CHOSEN).count();
        let count = excess().saturating_sub(closing);
        let mut idle: Vec<Candidate> = self.idle().collect();
        if count < idle.len() {
            idle.select_nth_unstable(count);
            idle.truncate(count);
        }
        for Candidate { since, table, slot } in idle {
            if let Some(table) = self.tables.get(table) {
                table.choose(slot, since);
            }
        }
    }

    /// Has the connections of this worker closed that have waited too long for a request.
    pub(crate) fn expire(&self, limits: &WaitLimits, now: Instant) {
        let table = self.tables.here();
        for (slot, found) in (0..).zip(table.states()) {
            let state = found.load(Relaxed);
            if limits.are_over(state, now) {
                table.choose(slot, state);
            }
        }
    }

    /// Some of the idle connections, the oldest last.
    fn oldest(&self) -> Vec<Candidate> {
        let mut oldest = BinaryHeap::with_capacity(CANDIDATES + 1);
        for candidate in self.idle() {
            oldest.push(candidate);
            if oldest.len() > CANDIDATES {
                oldest.pop();
            }
        }
        let mut oldest = oldest.into_sorted_vec();
        oldest.reverse();
        oldest
    }

    /// All idle connections.
    fn idle(&self) -> impl Iterator<Item = Candidate> {
        self.tables.indexed().flat_map(|(table, one)| {
            (0..).zip(one.states()).filter_map(move |(slot, state)| {
                let since = state.load(Relaxed);
                (since >= EPOCH).then_some(Candidate { since, table, slot })
            })
        })
    }
}

impl Table {
    /// Takes a slot.
    fn take(&self) -> u32 {
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.free.pop() {
            return slot;
        }
        let slot = slots.wakers.len();
        let (chunk, _) = position(slot);
        let length = FIRST_CHUNK << chunk;
        self.chunks[chunk].get_or_init(|| (0..length).map(|_| AtomicU64::new(BUSY)).collect());
        slots.wakers.push(None);
        // There are at most 2^31 by `CHUNKS`.
        slot as u32
    }

    fn free(&self, slot: u32) {
        let mut slots = lock(&self.slots);
        self.state(slot).store(BUSY, Relaxed);
        slots.wakers[slot as usize] = None;
        slots.free.push(slot);
    }

    /// Marks a connection, if it has been idle all the time since it was found, and wakes its task.
    fn choose(&self, slot: u32, since: u64) -> bool {
        let slots = lock(&self.slots);
        let chosen = self.state(slot).compare_exchange(since, CHOSEN, Relaxed, Relaxed).is_ok();
        if let Some(waker) = slots.wakers[slot as usize].as_ref().filter(|_| chosen) {
            waker.wake_by_ref();
        }
        chosen
    }

    fn state(&self, slot: u32) -> &AtomicU64 {
        static NONE: AtomicU64 = AtomicU64::new(BUSY);
        let (chunk, offset) = position(slot as usize);
        // A slot has its chunk from the moment when it is taken.
        self.chunks[chunk].get().map_or(&NONE, |states| &states[offset])
    }

    fn states(&self) -> impl Iterator<Item = &AtomicU64> {
        self.chunks.iter().map_while(OnceLock::get).flatten()
    }
}

/// The chunk of a slot, and where it is in that.
fn position(slot: usize) -> (usize, usize) {
    let chunk = (slot / FIRST_CHUNK + 1).ilog2() as usize;
    (chunk, slot - FIRST_CHUNK * ((1 << chunk) - 1))
}

impl IdleSlot {
    /// Runs in the task of the connection before anything else: the task is woken if the connection
    /// is chosen.
    pub(crate) async fn attach(&self) {
        poll_fn(|cx| {
            lock(&self.table.slots).wakers[self.slot as usize] = Some(cx.waker().clone());
            Poll::Ready(())
        })
        .await;
    }

    /// The connection may be closed from now on. Keeps an earlier time.
    pub(crate) fn begin(&self, now: Instant) {
        self.change(|before| match before {
            BUSY => state(now, IdleWait::Other),
            before => before >> WAIT_BITS << WAIT_BITS,
        });
    }

    /// The same, counted from now on, even if it was to be closed.
    pub(crate) fn renew(&self, now: Instant) {
        self.state().store(state(now, IdleWait::Other), Relaxed);
    }

    /// The connection waits for a request from now on, as long as one may ([`expiry`]).
    pub(crate) fn wait(&self, wait: IdleWait, now: Instant) {
        self.change(|_| state(now, wait));
    }

    /// Changes the state, unless the connection is to be closed.
    fn change(&self, new: impl Fn(u64) -> u64) {
        let before = self.state().load(Relaxed);
        if before == BUSY {
            // No other task writes it now.
            return self.state().store(new(before), Relaxed);
        }
        let _ = self.state().fetch_update(Relaxed, Relaxed, |before| (before != CHOSEN).then(|| new(before)));
    }

    /// A request is in progress: the connection must not be closed, even if it was chosen before.
    pub(crate) fn end(&self) {
        if self.state().load(Relaxed) != BUSY {
            self.state().store(BUSY, Relaxed);
        }
    }

    /// Whether the connection is to be closed.
    pub(crate) fn is_chosen(&self) -> bool {
        self.state().load(Relaxed) == CHOSEN
    }

    /// Runs a future until the connection is to be closed; `None` if it was.
    pub(crate) fn unless_chosen<'a, F: Future + Unpin + 'a>(
        &'a self,
        mut future: F,
    ) -> impl Future<Output = Option<F::Output>> + 'a {
        poll_fn(move |cx| match Pin::new(&mut future).poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.is_chosen() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
    }

    fn state(&self) -> &AtomicU64 {
        self.table.state(self.slot)
    }
}

impl Drop for IdleSlot {
    fn drop(&mut self) {
        self.table.free(self.slot);
    }
}

/// The state of a connection that is idle from now on.
fn state(now: Instant, wait: IdleWait) -> u64 {
    nanoseconds(now) << WAIT_BITS | wait as u64
}

/// Time from the start of the process.
fn nanoseconds(now: Instant) -> u64 {
    // What is left of the bits suffices for 146 years.
    now.saturating_duration_since(*START).as_nanos() as u64 + 1
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is complete at once.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot_since(all: &IdleConnections, age: u64) -> IdleSlot {
        let slot = all.slot();
        slot.renew(*START + Duration::from_secs(3600) - Duration::from_secs(age));
        slot
    }

    #[test]
    fn the_oldest_idle_connection_is_chosen_first() {
        let all = IdleConnections::default();
        let slots: Vec<IdleSlot> = [5, 60, 1, 30].map(|age| slot_since(&all, age)).into();
        let chosen = || slots.iter().map(IdleSlot::is_chosen).collect::<Vec<_>>();
        assert!(all.close_oldest());
        assert_eq!(chosen(), [false, true, false, false]);
        assert!(all.close_oldest());
        assert_eq!(chosen(), [false, true, false, true]);
    }

    #[test]
    fn a_connection_with_a_request_in_progress_is_never_chosen() {
        let all = IdleConnections::default();
        let (busy, idle) = (slot_since(&all, 60), slot_since(&all, 1));
        busy.end();
        assert!(all.close_oldest() && idle.is_chosen() && !busy.is_chosen());
        assert!(!all.close_oldest());
        // The request comes after the scan.
        let all = IdleConnections::default();
        let slots: Vec<IdleSlot> = [3, 2, 1].map(|age| slot_since(&all, age)).into();
        assert!(all.close_oldest() && slots[0].is_chosen());
        slots[1].end();
        assert!(all.close_oldest() && slots[2].is_chosen() && !slots[1].is_chosen());
    }

    #[test]
    fn a_slot_of_a_closed_connection_is_used_again_and_not_chosen() {
        let all = IdleConnections::default();
        let first: Vec<IdleSlot> = (0..1000).map(|age| slot_since(&all, age)).collect();
        let numbers: Vec<u32> = first.iter().map(|slot| slot.slot).collect();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
        drop(first);
        assert!(!all.close_oldest());
        let again: Vec<IdleSlot> = (0..1000).map(|age| slot_since(&all, age)).collect();
        assert!(again.iter().all(|slot| slot.slot < 1000));
    }

    /// The candidates of an earlier scan belonged to another table from then on, which ended the
    /// program when that table had fewer slots.
    #[test]
    fn a_worker_that_begins_after_a_scan_leaves_its_candidates_valid() {
        let all = IdleConnections::default();
        let slots: Vec<IdleSlot> = [3, 2, 1].map(|age| slot_since(&all, age)).into();
        assert!(all.close_oldest() && slots[0].is_chosen());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _worker = crate::process::per_worker::enter().unwrap();
                let own = slot_since(&all, 60);
                assert!(all.close_oldest() && slots[1].is_chosen());
                assert!(all.close_oldest() && slots[2].is_chosen() && !own.is_chosen());
            });
        });
    }

    #[test]
    fn every_slot_has_a_place_of_its_own() {
        let mut next = (0, 0);
        for slot in 0..10_000 {
            assert_eq!(position(slot), next, "{slot}");
            next = if next.1 + 1 == FIRST_CHUNK << next.0 { (next.0 + 1, 0) } else { (next.0, next.1 + 1) };
        }
    }
}
