//! Supervision of the threads and tasks that must run as long as the program.
//!
//! If one of them ended, with or without a panic, the gateway would appear healthy although it is
//! not: `/healthz` would return 200 for a configuration that is no longer updated. Therefore each
//! of them holds a [`PartToken`]. If a token is dropped before shutdown, the program exits with a
//! message and a status of its own.

use tokio::sync::mpsc;

/// Creates tokens.
#[derive(Clone)]
pub(crate) struct CriticalParts {
    ended: mpsc::UnboundedSender<&'static str>,
}

/// Reports the end of its holder when it is dropped.
pub(crate) struct PartToken {
    part: &'static str,
    ended: mpsc::UnboundedSender<&'static str>,
}

/// A part of the program has ended unexpectedly.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0} has ended unexpectedly; the program exits so that it is restarted; see the log before this line"
)]
pub(crate) struct PartEnded(pub(crate) String);

impl CriticalParts {
    /// Returns the supervisor, and a receiver for the names of parts that have ended.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<&'static str>) {
        let (ended, parts) = mpsc::unbounded_channel();
        (Self { ended }, parts)
    }

    /// Returns a token for a thread that holds it as long as it runs.
    pub(crate) fn token(&self, part: &'static str) -> PartToken {
        PartToken { part, ended: self.ended.clone() }
    }

    /// Starts a task that must never end.
    pub(crate) fn spawn(&self, part: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let token = self.token(part);
        tokio::spawn(async move {
            task.await;
            drop(token);
        });
    }
}

impl PartToken {
    /// Records that the holder ends because `part` has ended.
    pub(crate) fn because_of(mut self, part: &'static str) {
        self.part = part;
    }
}

impl PartToken {
    /// Discards the token if there is no thread or task that would hold it.
    pub(crate) fn discard(self) {
        // Avoids the drop, which would report an end. The leaked memory is a name and a channel
        // handle.
        std::mem::forget(self);
    }
}

impl Drop for PartToken {
    fn drop(&mut self) {
        // During shutdown, the receiver is gone.
        let _ = self.ended.send(self.part);
    }
}

/// Logs panics in the program log as one line. The default message of Rust has several lines and
/// may contain text from clients or manifests.
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("without a message");
        tracing::error!(thread = thread.name().unwrap_or_default(), %place, "panicked: {message}");
    }));
}

/// Fault injection for end-to-end tests, in debug builds only: the part named by the environment
/// variable `SLUICE_PANIC` panics here.
pub(crate) fn inject_fault(part: &str) {
    if cfg!(debug_assertions) && std::env::var("SLUICE_PANIC").is_ok_and(|name| name == part) {
        panic!("fault injection");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_or_returns_is_named() {
        let (parts, mut ended) = CriticalParts::new();
        let token = parts.token("the first");
        let thread = std::thread::spawn(move || {
            let _token = token;
            panic!("on purpose");
        });
        assert!(thread.join().is_err());
        assert_eq!(ended.try_recv(), Ok("the first"));
        parts.token("the second").because_of("something else");
        assert_eq!(ended.try_recv(), Ok("something else"));
    }

    #[tokio::test]
    async fn a_task_that_panics_or_returns_is_named() {
        let (parts, mut ended) = CriticalParts::new();
        parts.spawn("panics", async { panic!("on purpose") });
        assert_eq!(ended.recv().await, Some("panics"));
        parts.spawn("returns", async {});
        assert_eq!(ended.recv().await, Some("returns"));
        parts.spawn("runs", std::future::pending());
        tokio::task::yield_now().await;
        assert!(ended.try_recv().is_err());
    }
}
