//! What every end-to-end test stands on: the real program on a folder of manifests, backends on loopback, and
//! clients that send exactly the bytes they are told to.
//!
//! Everything blocks: a test reads from top to bottom, and nothing waits for a fixed time. What happens later
//! is awaited as a condition with a generous deadline.

pub(crate) mod backend;
pub(crate) mod certificate;
pub(crate) mod client;
pub(crate) mod folder;
pub(crate) mod gateway;
pub(crate) mod h2;
pub(crate) mod manifest;
pub(crate) mod ports;
pub(crate) mod wire;

use std::time::{Duration, Instant};

pub(crate) use backend::{Backend, Gate, Reply};
pub(crate) use certificate::TestCertificate;
pub(crate) use client::{Connection, get, get_tls};
pub(crate) use folder::Folder;
pub(crate) use gateway::Gateway;
pub(crate) use manifest::{Ingress, class, config_map, endpoints, service, site};

/// How long anything may take on a loaded machine before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// Asks again and again until there is an answer.
///
/// # Panics
/// There is none within [`PATIENCE`].
#[track_caller]
pub(crate) fn await_some<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain: {what}");
        pause();
    }
}

/// Between two looks at a condition.
#[expect(clippy::disallowed_methods, reason = "a test thread of its own, between two looks at a condition")]
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

/// Asks again and again until the answer is yes.
///
/// # Panics
/// It is not within [`PATIENCE`].
#[track_caller]
pub(crate) fn await_until(what: &str, mut ask: impl FnMut() -> bool) {
    await_some(what, || ask().then_some(()));
}
