//! Exemplars: requests with a sampled trace, by which a slow bucket leads to a trace.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use super::histogram::Bounds;

/// The id of a trace.
pub(super) type TraceBytes = [u8; 16];

/// The last exemplar of each bucket of a histogram. Needs memory from the first one on.
#[derive(Debug, Default)]
pub(super) struct Exemplars(OnceLock<Mutex<Box<[Option<Exemplar>]>>>);

/// A request with a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::telemetry) struct Exemplar {
    pub(in crate::telemetry) trace: TraceBytes,
    /// In seconds.
    pub(in crate::telemetry) value: f64,
    pub(in crate::telemetry) at: SystemTime,
}

impl Exemplars {
    /// Keeps a request for the bucket of its duration.
    pub(super) fn keep(&self, bounds: &Bounds, exemplar: Exemplar) {
        let all = self.0.get_or_init(|| Mutex::new((0..bounds.buckets()).map(|_| None).collect()));
        lock(all)[bounds.bucket(exemplar.value)] = Some(exemplar);
    }

    /// Returns the exemplars, each with its bucket.
    pub(super) fn read(&self) -> Vec<(usize, Exemplar)> {
        let Some(all) = self.0.get() else { return Vec::new() };
        lock(all).iter().enumerate().filter_map(|(bucket, kept)| Some((bucket, (*kept)?))).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Poisoning can be ignored: an entry is replaced as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
