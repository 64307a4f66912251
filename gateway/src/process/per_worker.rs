//! Values that every request changes, one instance per worker; readers add them up.
//!
//! A cache line that two cores write moves between them each time, which takes as long as hundreds
//! of instructions, and many cores queue for it. Each worker therefore has a [slot](enter) with
//! values in cache lines of its own. Threads without a slot, such as those of tests, share one
//! value.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};
use std::sync::{Arc, OnceLock};

/// Maximum number of threads with a value of their own. Further threads share one, which is slower.
const PLACES: usize = 64;

/// Bit set of the slots in use.
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static PLACE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// A value for each worker, created at its first use.
#[derive(Debug)]
pub(crate) struct PerWorker<T> {
    own: [OnceLock<Arc<Padded<T>>>; PLACES],
    /// The value of all threads without a slot.
    common: Arc<Padded<T>>,
}

/// Aligned to cache lines of its own. Processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(T);

/// The slot of a worker thread; released when dropped on that thread.
#[derive(Debug)]
pub(crate) struct WorkerSlot {
    place: usize,
    /// Not `Send`: the slot belongs to its thread.
    _thread: PhantomData<*const ()>,
}

/// Gives this thread a slot, if it has none and one is free.
pub(crate) fn enter() -> Option<WorkerSlot> {
    if PLACE.get().is_some() {
        return None;
    }
    let free = |taken: u64| taken.trailing_ones() as usize;
    // Acquires what the previous thread of the slot has written.
    let next = |taken: u64| (free(taken) < PLACES).then(|| taken | 1 << free(taken));
    let place = free(TAKEN.fetch_update(AcqRel, Acquire, next).ok()?);
    PLACE.set(Some(place));
    Some(WorkerSlot { place, _thread: PhantomData })
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        PLACE.set(None);
        TAKEN.fetch_and(!(1 << self.place), AcqRel);
    }
}

impl<T> Padded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Default> Default for PerWorker<T> {
    fn default() -> Self {
        Self { own: [const { OnceLock::new() }; PLACES], common: Arc::default() }
    }
}

impl<T: Default> PerWorker<T> {
    /// Returns this thread's value, which no other thread uses while this one has its slot. `None`
    /// without a slot.
    pub(crate) fn own(&self) -> Option<&Arc<Padded<T>>> {
        Some(self.own[PLACE.get()?].get_or_init(Arc::default))
    }

    /// Returns this thread's value, or the shared one without a slot.
    pub(crate) fn here(&self) -> &Arc<Padded<T>> {
        self.own().unwrap_or(&self.common)
    }

    /// Returns all values.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.indexed().map(|(_, value)| value)
    }

    /// Returns all values, each with an index that stays the same when further values are created.
    pub(crate) fn indexed(&self) -> impl Iterator<Item = (usize, &T)> {
        (0..=PLACES).filter_map(|index| Some((index, self.get(index)?)))
    }

    /// Returns the value at an index of [`Self::indexed`].
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        let padded = self.own.get(index).map_or(Some(&self.common), OnceLock::get);
        padded.map(|padded| &padded.0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::Ordering::Relaxed;
    use std::thread;

    use super::*;

    #[test]
    fn threads_share_no_slot_and_no_cache_line() {
        let counter = PerWorker::<AtomicU64>::default();
        let address = |padded: &Arc<Padded<AtomicU64>>| std::ptr::from_ref(&padded.0).addr();
        let barrier = Barrier::new(8);
        let count = || {
            let _place = enter().unwrap();
            assert!(enter().is_none(), "one is enough");
            counter.here().fetch_add(3, Relaxed);
            barrier.wait();
            address(counter.own().unwrap())
        };
        let mut addresses: Vec<usize> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(counter.own().is_none());
        counter.here().fetch_add(1, Relaxed);
        addresses.push(address(counter.here()));
        addresses.sort_unstable();
        assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] >= 128), "{addresses:x?}");
        assert_eq!(counter.all().map(|count| count.load(Relaxed)).sum::<u64>(), 8 * 3 + 1);
    }
}
