//! The real program as a child process. [`Gateway::start`] and similar functions are for tests:
//! they serve a folder and record all output. [`Gateway::launch`] is for programs that provide the
//! command themselves.

mod command;
mod log;
mod process;
mod queries;
mod start;

use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use std::{fmt, io};

use rustix::process::{Pid, Signal, kill_process};

use crate::folder::Folder;
use crate::wait::{await_some, pause};
pub use command::{Addresses, Source, run, run_with_standard_error, serve};
use log::Log;
pub use process::suspend;

/// Reason why a gateway did not become ready, with its log.
#[derive(Debug)]
pub struct NotReady {
    /// Whether another process uses one of its ports.
    pub port_taken: bool,
    message: String,
}

/// A running gateway. It is killed on drop if it still runs.
#[derive(Debug)]
pub struct Gateway {
    /// Plain HTTP.
    pub http: SocketAddr,
    /// TLS.
    pub https: SocketAddr,
    /// `/healthz`, `/livez` and `/metrics`.
    pub healthz: SocketAddr,
    /// Introspection.
    pub admin: SocketAddr,
    /// Time from the start until it was ready.
    pub start: Duration,
    child: Child,
    access_log: Log,
    program_log: Log,
    /// The folder must exist for as long as the process watches it.
    _folder: Option<Folder>,
}

impl Gateway {
    /// Runs a command that serves on these addresses, and waits until it is ready. Its output is
    /// recorded if the command pipes it, as [`serve`] does.
    ///
    /// # Errors
    /// The command cannot be started, ends, or is not ready in time. The error contains its log.
    pub fn launch(command: Command, addresses: Addresses, patience: Duration) -> Result<Self, NotReady> {
        let mut gateway = Self::spawn(command, addresses, None)
            .map_err(|error| NotReady { port_taken: false, message: error.to_string() })?;
        gateway.await_ready("/healthz", patience)?;
        Ok(gateway)
    }

    fn spawn(mut command: Command, addresses: Addresses, folder: Option<&Folder>) -> io::Result<Self> {
        let program = command.get_program().display().to_string();
        let mut child = command
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("cannot start {program}: {error}")))?;
        let access_log = child.stdout.take().map(Log::of).unwrap_or_default();
        let program_log = child.stderr.take().map(Log::of).unwrap_or_default();
        let Addresses { http, https, healthz, admin } = addresses;
        let (start, folder) = (Duration::ZERO, folder.cloned());
        Ok(Self { http, https, healthz, admin, start, child, access_log, program_log, _folder: folder })
    }

    fn await_ready(&mut self, path: &str, patience: Duration) -> Result<(), NotReady> {
        let started = Instant::now();
        while self.probe(path).map(|response| response.status) != Some(200) {
            let ended = self.child.try_wait().unwrap_or_default();
            if ended.is_some() || started.elapsed() > patience {
                if ended.is_some() {
                    self.program_log.await_end();
                }
                let log = self.program_log().join("\n");
                let message = match ended {
                    Some(status) => format!("the gateway ended with {status}:\n{log}"),
                    None => format!("the gateway is not ready after {patience:?}:\n{log}"),
                };
                return Err(NotReady { port_taken: log.contains("already in use"), message });
            }
            pause();
        }
        self.start = started.elapsed();
        Ok(())
    }

    /// Returns the lines of the access log so far.
    pub fn access_log(&self) -> Vec<String> {
        self.access_log.lines()
    }

    /// Returns the lines of the program log so far.
    pub fn program_log(&self) -> Vec<String> {
        self.program_log.lines()
    }

    /// Waits for a line of the access log that contains `text`, and returns the first one.
    #[track_caller]
    pub fn await_access(&self, text: &str) -> String {
        await_some(&format!("an access log line with {text:?}"), || {
            self.access_log().into_iter().find(|line| line.contains(text))
        })
    }

    /// Returns whether the process is running.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end of the process and returns its status.
    #[track_caller]
    pub fn await_exit(&mut self) -> ExitStatus {
        await_some("the end of the gateway", || self.child.try_wait().unwrap())
    }

    /// Returns the last lines of the program log.
    pub fn log(&self) -> String {
        let lines = self.program_log();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Terminates the gateway as Kubernetes does, and waits for its end.
    ///
    /// # Errors
    /// The gateway does not end in time or fails. The error contains the last lines of its log.
    pub fn stop(mut self, patience: Duration) -> io::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let asked = Instant::now();
        loop {
            let outcome = match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => format!("ended with {status}"),
                None if asked.elapsed() > patience => format!("does not end within {patience:?}"),
                None => {
                    pause();
                    continue;
                }
            };
            return Err(io::Error::other(format!("the gateway {outcome}:\n{}", self.log())));
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("program log:\n{}", self.program_log().join("\n"));
            eprintln!("access log:\n{}", self.access_log().join("\n"));
        }
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for NotReady {}
