//! Waiting for a condition: nothing here waits for a fixed time.

use std::time::{Duration, Instant};

/// How long anything may take on a loaded machine before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Asks again and again until there is an answer.
///
/// # Panics
/// There is none within [`PATIENCE`].
#[track_caller]
pub fn await_some<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain: {what}");
        pause();
    }
}

/// Asks again and again until the answer is yes.
///
/// # Panics
/// It is not within [`PATIENCE`].
#[track_caller]
pub fn await_until(what: &str, mut ask: impl FnMut() -> bool) {
    await_some(what, || ask().then_some(()));
}

/// Between two looks at a condition.
#[expect(clippy::disallowed_methods, reason = "a test thread of its own, between two looks at a condition")]
pub fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}
