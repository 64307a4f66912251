//! Rows of frequently used series, one set per worker.
//!
//! A row occupies nine cache lines, so contention between workers that record into the same row
//! costs more than any other part of a request. But one row per worker and series would need too
//! much memory. Each worker therefore has [`ROWS`] slots for rows of its own. A series maps to one
//! slot, and keeps it for as long as it is recorded more often than its competitors, which use the
//! row shared by all workers.
//!
//! When another series takes over a slot, the row's content moves to the shared row. A scrape must
//! count it exactly once, because a decreasing counter looks like a restart. It therefore
//! [keeps](WorkerRows::keep) all rows in place while it reads. No request waits for a scrape: it
//! uses the shared row meanwhile.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::family::Families;
use super::series::{RequestSample, Series, SeriesFigures};

/// Number of rows of a worker. Each takes about 650 bytes once it is used.
pub(super) const ROWS: usize = 256;

/// Initial lead of a series over its competitors: the number of their requests after which it loses
/// the slot. A move costs as much as recording about ten requests, so series that alternate in one
/// slot must not move with each request.
pub(super) const FIRST_LEAD: u8 = 32;

/// The rows of one worker, into which only that worker records.
#[derive(Debug)]
pub(super) struct WorkerRows {
    places: Box<[RowSlot]>,
    /// The series that own the rows. Locked while a row moves, and while no row may move.
    series: Mutex<Box<[Option<Series>]>>,
}

/// Storage for the row of one series.
#[derive(Debug, Default)]
struct RowSlot {
    /// The series that occupies the slot; 0 is none.
    series: AtomicU64,
    /// How much more often the series was recorded recently than its competitors for the slot.
    lead: AtomicU8,
    row: OnceLock<Box<[AtomicU64]>>,
}

/// Prevents all rows from moving for as long as it exists.
#[derive(Debug)]
pub(super) struct Kept<'o> {
    own: &'o WorkerRows,
    _series: MutexGuard<'o, Box<[Option<Series>]>>,
}

impl Default for WorkerRows {
    fn default() -> Self {
        Self {
            places: (0..ROWS).map(|_| RowSlot::default()).collect(),
            series: Mutex::new((0..ROWS).map(|_| None).collect()),
        }
    }
}

impl WorkerRows {
    /// Records a request, if the series has a row here or gets one. Only the worker itself may call
    /// this.
    pub(super) fn record(&self, series: &Series, families: &Families, sample: &RequestSample) -> bool {
        let place = &self.places[index(series.number())];
        let lead = place.lead.load(Relaxed);
        if place.series.load(Relaxed) == series.number() {
            if lead < u8::MAX {
                place.lead.store(lead + 1, Relaxed);
            }
        } else if lead > 0 {
            place.lead.store(lead - 1, Relaxed);
            return false;
        } else if self.move_in(series) {
            place.lead.store(FIRST_LEAD, Relaxed);
        } else {
            return false;
        }
        let Some(row) = place.row.get() else { return false };
        // Only this worker writes here, so a separate load and store suffice.
        series.record_into(row, families, sample, |cell, more| {
            cell.store(cell.load(Relaxed).wrapping_add(more), Relaxed);
        });
        true
    }

    /// Assigns the slot to a series, unless a scrape holds the lock.
    fn move_in(&self, series: &Series) -> bool {
        let Ok(mut all) = self.series.try_lock() else { return false };
        let index = index(series.number());
        let place = &self.places[index];
        let row = place.row.get_or_init(|| series.empty_row());
        if let Some(before) = all[index].replace(series.clone()) {
            before.add(row.iter().map(|cell| {
                let figure = cell.load(Relaxed);
                // Only this worker writes here, and scrapes wait for the lock.
                cell.store(0, Relaxed);
                figure
            }));
        }
        place.series.store(series.number(), Relaxed);
        true
    }

    /// Prevents all rows from moving.
    pub(super) fn keep(&self) -> Kept<'_> {
        // Poisoning can be ignored: a list of handles is always consistent.
        Kept { own: self, _series: self.series.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl Kept<'_> {
    /// Returns the row of a series, if it has one here.
    pub(super) fn row(&self, series: &Series) -> Option<&[AtomicU64]> {
        let place = &self.own.places[index(series.number())];
        (place.series.load(Relaxed) == series.number()).then(|| place.row.get().map(AsRef::as_ref))?
    }
}

/// Returns the figures of a series on all workers.
pub(super) fn sum(series: &Series, workers: &[Kept<'_>]) -> SeriesFigures {
    series.sum(workers.iter().filter_map(|own| own.row(series)))
}

/// Returns the slot of a series. Consecutively created series have different slots.
fn index(number: u64) -> usize {
    (number % ROWS as u64) as usize
}
