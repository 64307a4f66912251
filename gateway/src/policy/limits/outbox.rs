//! The use of limits that other replicas have not been sent yet, by slot of a table of rates.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use super::set::{SETS, WAYS};

/// Slots per word of marks.
const MARKS: usize = u64::BITS as usize;

/// Accumulates the use of each slot, with a mark for each slot that has any. 2 MiB.
#[derive(Debug)]
pub(super) struct Outbox {
    /// Time by which due times have advanced, in nanoseconds.
    used: Box<[AtomicU64]>,
    marks: Box<[AtomicU64]>,
}

impl Default for Outbox {
    fn default() -> Self {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self { used: zeros(SETS * WAYS), marks: zeros(SETS * WAYS / MARKS) }
    }
}

impl Outbox {
    /// Adds the use of a request.
    pub(super) fn add(&self, slot: usize, time: u64) {
        self.used[slot].fetch_add(time, SeqCst);
        let (mark, bit) = (&self.marks[slot / MARKS], 1 << (slot % MARKS));
        // After the addition: if the mark was taken since, the time was taken with it.
        if mark.load(SeqCst) & bit == 0 {
            mark.fetch_or(bit, SeqCst);
        }
    }

    /// Subtracts the use of a request, unless it was taken already.
    pub(super) fn refund(&self, slot: usize, time: u64) {
        // Cannot fail: the closure always returns a value.
        let _ = self.used[slot].fetch_update(SeqCst, SeqCst, |used| Some(used.saturating_sub(time)));
    }

    /// Drops the use of a slot that gets another client.
    pub(super) fn clear(&self, slot: usize) {
        self.used[slot].store(0, SeqCst);
    }

    /// Takes the use of all slots since the last call.
    pub(super) fn take(&self, mut each: impl FnMut(usize, u64)) {
        for (word, marks) in self.marks.iter().enumerate() {
            if marks.load(SeqCst) == 0 {
                continue;
            }
            let mut marks = marks.swap(0, SeqCst);
            while marks != 0 {
                let slot = word * MARKS + marks.trailing_zeros() as usize;
                marks &= marks - 1;
                let used = self.used[slot].swap(0, SeqCst);
                if used > 0 {
                    each(slot, used);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(outbox: &Outbox) -> Vec<(usize, u64)> {
        let mut all = Vec::new();
        outbox.take(|slot, used| all.push((slot, used)));
        all
    }

    #[test]
    fn each_use_is_taken_once() {
        let outbox = Outbox::default();
        for (slot, time) in [(0, 5), (70, 1), (70, 2), (SETS * WAYS - 1, 9), (3, 4), (5, 4)] {
            outbox.add(slot, time);
        }
        outbox.refund(3, 4);
        outbox.clear(5);
        assert_eq!(taken(&outbox), [(0, 5), (70, 3), (SETS * WAYS - 1, 9)]);
        assert_eq!(taken(&outbox), []);
        outbox.refund(0, 5);
        assert_eq!(taken(&outbox), [], "it was sent");
    }

    #[test]
    fn no_use_of_concurrent_requests_is_lost() {
        let outbox = Outbox::default();
        let mut sum = 0;
        std::thread::scope(|scope| {
            let threads = [(); 2].map(|()| scope.spawn(|| (0..20_000).for_each(|_| outbox.add(7, 1))));
            while threads.iter().any(|thread| !thread.is_finished()) {
                outbox.take(|_, used| sum += used);
            }
        });
        outbox.take(|_, used| sum += used);
        assert_eq!(sum, 40_000);
    }
}
