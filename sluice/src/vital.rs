//! What must run for as long as the program does.
//!
//! If one of these threads or tasks ended, with a panic or without, the gateway would look healthy and not be: `/healthz`
//! at 200 over a configuration that nothing changes any more. So each of them holds a [`Token`], and the program ends,
//! with a message and a status of its own, when a token is dropped before shutdown has begun.

use tokio::sync::mpsc;

/// Gives out tokens.
#[derive(Clone)]
pub(crate) struct Vitals {
    ended: mpsc::UnboundedSender<&'static str>,
}

/// Says that its holder has ended, by being dropped.
pub(crate) struct Token {
    part: &'static str,
    ended: mpsc::UnboundedSender<&'static str>,
}

/// Something has ended that must not.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0} has ended, which must not happen; the program ends, to be started anew; see the log before this line"
)]
pub(crate) struct Died(pub(crate) String);

impl Vitals {
    /// Names of what has ended come out of the receiver.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<&'static str>) {
        let (ended, parts) = mpsc::unbounded_channel();
        (Self { ended }, parts)
    }

    /// For a thread that holds it for as long as it runs.
    pub(crate) fn token(&self, part: &'static str) -> Token {
        Token { part, ended: self.ended.clone() }
    }

    /// Starts a task that never ends.
    pub(crate) fn spawn(&self, part: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let token = self.token(part);
        tokio::spawn(async move {
            task.await;
            drop(token);
        });
    }
}

impl Token {
    /// The holder ends because something else has ended.
    pub(crate) fn because_of(mut self, part: &'static str) {
        self.part = part;
    }
}

impl Token {
    /// There is no thread or task to hold it.
    pub(crate) fn discard(self) {
        // Not dropped. It is a name and a share of a channel that lives as long as the program.
        std::mem::forget(self);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        // During shutdown nobody receives this any more.
        let _ = self.ended.send(self.part);
    }
}

/// Logs panics in the program log, as one line like everything else. Rust's own message has several lines, and may contain
/// text that came from clients or manifests.
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("without a message");
        tracing::error!(thread = thread.name().unwrap_or_default(), %place, "panicked: {message}");
    }));
}

/// Fault injection for end-to-end tests, in debug builds alone: the part that the environment variable `SLUICE_PANIC`
/// names panics here.
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
        let (vitals, mut ended) = Vitals::new();
        let token = vitals.token("the first");
        let thread = std::thread::spawn(move || {
            let _token = token;
            panic!("on purpose");
        });
        assert!(thread.join().is_err());
        assert_eq!(ended.try_recv(), Ok("the first"));
        vitals.token("the second").because_of("something else");
        assert_eq!(ended.try_recv(), Ok("something else"));
    }

    #[tokio::test]
    async fn a_task_that_panics_or_returns_is_named() {
        let (vitals, mut ended) = Vitals::new();
        vitals.spawn("panics", async { panic!("on purpose") });
        assert_eq!(ended.recv().await, Some("panics"));
        vitals.spawn("returns", async {});
        assert_eq!(ended.recv().await, Some("returns"));
        vitals.spawn("runs", std::future::pending());
        tokio::task::yield_now().await;
        assert!(ended.try_recv().is_err());
    }
}
