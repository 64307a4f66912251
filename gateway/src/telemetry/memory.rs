//! Use of the memory budget for bodies and heads, as counted by the budget itself, and of the disk
//! for stored responses.

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts};

use super::error::TelemetryError;
use crate::cache::{CacheUse, FileErrors};

/// Use of the memory for bodies and heads in flight (`body-memory-budget`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes reserved by workers.
    pub taken: usize,
    /// Size of the budget in bytes.
    pub limit: usize,
    /// Number of reservations that had to wait.
    pub waits: u64,
    /// Number of reservations that were refused.
    pub refusals: u64,
    /// The part that stored responses use.
    pub cache: CacheUse,
}

pub(super) fn families(memory: MemoryUse) -> Result<Vec<MetricFamily>, TelemetryError> {
    let MemoryUse { taken, limit, waits, refusals, cache } = memory;
    let gauge = |name, help, value: usize| {
        let gauge = IntGauge::new(name, help)?;
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        Ok::<_, prometheus::Error>(gauge.collect())
    };
    let counter = |name, help, value| {
        let counter = IntCounter::new(name, help)?;
        counter.inc_by(value);
        Ok::<_, prometheus::Error>(counter.collect())
    };
    let all = [
        gauge(
            "sluice_body_memory_bytes",
            "Bytes of body-memory-budget reserved by workers; up to 512 KiB per worker are not in use.",
            taken,
        )?,
        gauge("sluice_body_memory_limit_bytes", "body-memory-budget.", limit)?,
        counter(
            "sluice_body_memory_waits_total",
            "Times that reading waited because body-memory-budget was used up.",
            waits,
        )?,
        counter(
            "sluice_body_memory_refusals_total",
            "Times that body-memory-budget was used up for an optional use, or for a head.",
            refusals,
        )?,
        gauge("sluice_cache_bytes", "Bytes of stored responses; a part of body-memory-budget.", cache.bytes)?,
        gauge("sluice_cache_limit_bytes", "Maximum bytes of stored responses.", cache.limit)?,
        gauge("sluice_cache_responses", "Stored responses.", cache.responses)?,
        counter(
            "sluice_cache_evictions_total",
            "Stored responses that were removed because others needed their memory or disk space.",
            cache.evictions as u64,
        )?,
        gauge(
            "sluice_cache_file_bytes",
            "Bytes of stored responses in --cache-path, in blocks of 4 KiB.",
            bytes(cache.files.bytes),
        )?,
        gauge(
            "sluice_cache_file_limit_bytes",
            "cache-file-size; 0 without --cache-path.",
            bytes(cache.files.limit),
        )?,
        gauge(
            "sluice_cache_file_entries",
            "Stored responses whose bodies are in --cache-path.",
            cache.files.entries,
        )?,
        file_errors(cache.files.errors)?,
    ];
    Ok(all.into_iter().flatten().collect())
}

fn file_errors(errors: FileErrors) -> Result<Vec<MetricFamily>, TelemetryError> {
    let FileErrors { read, write, damage } = errors;
    let counters = IntCounterVec::new(
        Opts::new(
            "sluice_cache_file_errors_total",
            "Stored responses in --cache-path that could not be read or written, or were damaged.",
        ),
        &["error"],
    )?;
    for (error, count) in [("read", read), ("write", write), ("damage", damage)] {
        counters.with_label_values(&[error]).inc_by(count);
    }
    Ok(counters.collect())
}

fn bytes(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
