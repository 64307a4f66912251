//! The rows of series that a worker records most into, each worker its own.
//!
//! A row is nine cache lines, so workers that record into one row wait for each other more than for anything else of
//! a request. But a row for each worker and series would be too much where there are many of both. So a worker has
//! [`ROWS`] places for rows of its own. A series has one place where it may be, and keeps it as long as it is recorded
//! more often than others that would like to have it; those are recorded into the row that all share.
//!
//! What is in a row moves to the shared one when another series gets its place. A scrape must see it in one of them, and
//! never in both or none, because a counter that falls looks like a restart. So it [keeps](Own::keep) all rows
//! where they are while it reads. No request waits for that: it uses the shared row meanwhile.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::family::Families;
use super::series::{Sample, Series};

/// Rows of a worker. Each is about 650 bytes, once it is needed.
pub(super) const ROWS: usize = 256;

/// Requests to others that a series which has just got a place can bear before it loses it. To move costs as much as to
/// record some ten requests, so series that take turns in one place must not move with every one of them.
pub(super) const FIRST_LEAD: u8 = 32;

/// The rows of one worker, which alone records into them.
#[derive(Debug)]
pub(super) struct Own {
    places: Box<[RowSlot]>,
    /// Whose rows they are. Held while a row moves, and while nothing may.
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

/// No row moves as long as it lives.
#[derive(Debug)]
pub(super) struct Kept<'o> {
    own: &'o Own,
    _series: MutexGuard<'o, Box<[Option<Series>]>>,
}

impl Default for Own {
    fn default() -> Self {
        Self {
            places: (0..ROWS).map(|_| RowSlot::default()).collect(),
            series: Mutex::new((0..ROWS).map(|_| None).collect()),
        }
    }
}

impl Own {
    /// Records a request, if the series has a row here or gets one. To be called by the worker alone.
    pub(super) fn record(&self, series: &Series, families: &Families, sample: &Sample) -> bool {
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
        // Nobody else writes here, so it need not be one step.
        series.record_into(row, families, sample, |cell, more| {
            cell.store(cell.load(Relaxed).wrapping_add(more), Relaxed);
        });
        true
    }

    /// Gives the place to a series, unless somebody reads.
    fn move_in(&self, series: &Series) -> bool {
        let Ok(mut all) = self.series.try_lock() else { return false };
        let index = index(series.number());
        let place = &self.places[index];
        let row = place.row.get_or_init(|| series.empty_row());
        if let Some(before) = all[index].replace(series.clone()) {
            before.add(row.iter().map(|cell| {
                let figure = cell.load(Relaxed);
                // Nobody else writes here, and who reads waits for the lock.
                cell.store(0, Relaxed);
                figure
            }));
        }
        place.series.store(series.number(), Relaxed);
        true
    }

    /// Keeps all rows where they are.
    pub(super) fn keep(&self) -> Kept<'_> {
        // A list of handles is whole whatever panicked.
        Kept { own: self, _series: self.series.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl Kept<'_> {
    /// The row of a series, if it has one here.
    pub(super) fn row(&self, series: &Series) -> Option<&[AtomicU64]> {
        let place = &self.own.places[index(series.number())];
        (place.series.load(Relaxed) == series.number()).then(|| place.row.get().map(AsRef::as_ref))?
    }
}

/// Series that were made one after the other have different places.
fn index(number: u64) -> usize {
    (number % ROWS as u64) as usize
}
