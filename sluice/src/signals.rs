//! The signals that end the program: SIGTERM, SIGINT and SIGHUP.
//!
//! SIGHUP is what a terminal sends when it closes, and what operators of nginx send to reload it.
//! There is nothing to reload, so it drains like the others and no request is lost. Under `nohup`,
//! it stays ignored.

use std::{fs, future, io};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives the signals. Without it, they end the process at once.
pub(crate) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` if the process was started with the signal ignored.
    hangup: Option<Signal>,
}

impl EndSignals {
    /// Begins to receive them.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub(crate) fn new() -> io::Result<Self> {
        let hangup = (!is_ignored(SignalKind::hangup())).then(|| signal(SignalKind::hangup()));
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: hangup.transpose()?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = hangup => {}
        }
    }

    /// Runs a step of the start. Returns `None` if a signal comes before its end.
    pub(crate) async fn or<T>(&mut self, step: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = step => Some(done),
            () = self.next() => {
                tracing::info!("a signal ends the start");
                None
            }
        }
    }
}

/// Returns whether the process ignores a signal: the mask `SigIgn` of `/proc/self/status`, one bit
/// for each signal (proc_pid_status(5)). A system without it counts as one that ignores none.
fn is_ignored(kind: SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (kind.as_raw_value() - 1) & 1 == 1)
}
