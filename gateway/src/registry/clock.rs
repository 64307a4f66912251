//! The clock of the endpoints: milliseconds, so that a time fits into a part of an atomic word.

use std::sync::LazyLock;
use std::time::Instant;

/// Zero of the endpoints' clock.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns milliseconds on the endpoints' clock.
pub(super) fn millis(at: Instant) -> u64 {
    at.saturating_duration_since(*EPOCH).as_millis() as u64
}
