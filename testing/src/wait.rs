//! Waiting for a condition: nothing here waits for a fixed time.

use std::time::{Duration, Instant};

/// How long anything may take on a loaded machine before a test gives up. Only a test that fails waits that long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(5);

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

/// The same for tests on a runtime.
///
/// # Panics
/// It is not within [`PATIENCE`].
pub async fn until(what: &str, mut ask: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !ask() {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Between two looks at a condition.
#[expect(clippy::disallowed_methods, reason = "a test thread of its own, between two looks at a condition")]
pub fn pause() {
    std::thread::sleep(PAUSE);
}
