//! Processes that end with this program, also when a signal ends it: its default action would leave
//! them running.

use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

/// Base of the exit status of a program that a signal has ended, by the convention of shells.
const SIGNALLED: i32 = 128;

static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// A process that ends when this is dropped.
#[derive(Debug)]
pub(super) struct BoundChild(pub(super) Child);

impl BoundChild {
    /// Starts a process.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn spawn(command: &mut Command) -> io::Result<Self> {
        static WATCHES: OnceLock<()> = OnceLock::new();
        if WATCHES.get().is_none() {
            watch()?;
            // Only the first call has an effect.
            let _ = WATCHES.set(());
        }
        let mut running = running();
        let child = command.spawn()?;
        running.push(Pid::from_child(&child));
        Ok(Self(child))
    }
}

impl Drop for BoundChild {
    fn drop(&mut self) {
        // Its number may be given to another process as soon as it has been waited for.
        running().retain(|pid| *pid != Pid::from_child(&self.0));
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ends all processes and this program at the signals that would end it.
#[expect(
    clippy::disallowed_methods,
    reason = "the main thread waits for input or output, and holds only processes"
)]
fn watch() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut terminate, mut interrupt, mut hangup) = {
        let _entered = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?)
    };
    thread::spawn(move || {
        let number = runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => SignalKind::terminate(),
                _ = interrupt.recv() => SignalKind::interrupt(),
                _ = hangup.recv() => SignalKind::hangup(),
            }
        });
        // No further process starts: the lock is held to the end.
        let running = running();
        for pid in &*running {
            // It may have ended already.
            let _ = kill_process(*pid, Signal::TERM);
        }
        std::process::exit(SIGNALLED + number.as_raw_value());
    });
    Ok(())
}

fn running() -> MutexGuard<'static, Vec<Pid>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
