//! Waiting for conditions instead of fixed times.

use std::time::{Duration, Instant};

/// Time limit for any step on a loaded machine. Only failing tests wait that long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Time limit for a program that reads its configuration, which is computation alone: it takes as
/// many times longer as there are suites that share the processors.
pub const START_PATIENCE: Duration = PATIENCE.saturating_mul(4);

/// Interval between two checks of a condition.
const PAUSE: Duration = Duration::from_millis(5);

/// Calls `ask` repeatedly until it returns a value.
///
/// # Panics
/// There is no value within [`PATIENCE`].
#[track_caller]
pub fn await_some<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}");
        pause();
    }
}

/// Calls `ask` repeatedly until it returns true.
///
/// # Panics
/// The condition does not hold within [`PATIENCE`].
#[track_caller]
pub fn await_until(what: &str, mut ask: impl FnMut() -> bool) {
    await_some(what, || ask().then_some(()));
}

/// Same as [`await_until`] for tests on a runtime.
///
/// # Panics
/// The condition does not hold within [`PATIENCE`].
pub async fn until(what: &str, mut ask: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !ask() {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Pauses between two checks of a condition.
#[expect(clippy::disallowed_methods, reason = "a test thread of its own, between two looks at a condition")]
pub fn pause() {
    std::thread::sleep(PAUSE);
}
