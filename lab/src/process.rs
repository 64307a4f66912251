//! Programs that outlive the process that started them. Each is recorded in the lab's folder by pid
//! and start time, so that a later command, or one after a crash, ends exactly the processes of
//! this lab and never another process with a reused pid.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::layout::Layout;

/// A process. Its start time distinguishes it from a later one of the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pid: i32,
    /// Clock ticks since the machine started (field 22 of `/proc/PID/stat`).
    started: u64,
}

impl Process {
    /// Returns the running process with this pid. `None` if it has ended, even if it was not reaped
    /// yet.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = Stat::of(pid)?;
        (!stat.ended).then_some(Self { pid, started: stat.started })
    }

    /// Returns the calling process, by its pid outside of its PID namespace. This works while
    /// `/proc` is still the machine's.
    pub fn own() -> Option<Self> {
        let text = fs::read_to_string("/proc/self/stat").ok()?;
        Some(Self { pid: text.split(' ').next()?.parse().ok()?, started: Stat::parse(&text)?.started })
    }

    /// Returns the pid.
    pub fn pid(self) -> i32 {
        self.pid
    }

    /// Reads a record.
    pub fn read(record: &Path) -> Option<Self> {
        let text = fs::read_to_string(record).ok()?;
        let (pid, started) = text.trim().split_once(' ')?;
        Some(Self { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }

    /// Writes a record atomically.
    pub fn write(self, record: &Path) -> io::Result<()> {
        let part = record.with_extension("part");
        fs::write(&part, format!("{} {}", self.pid, self.started))?;
        fs::rename(part, record)
    }

    /// Returns whether it is running. A process whose first thread has ended is not, though other
    /// threads may hold its sockets for a moment longer: [`Self::wait`] waits for those too.
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Returns whether all its threads have stopped (SIGSTOP).
    pub fn is_suspended(self) -> bool {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.pid)) else { return false };
        let state = |thread: fs::DirEntry| Stat::read(&thread.path().join("stat"));
        threads.flatten().all(|thread| state(thread).is_some_and(|stat| stat.stopped))
    }

    /// Sends a signal, unless the process has ended.
    pub fn signal(self, signal: Signal) -> io::Result<()> {
        match self.handle()? {
            Some(handle) => match pidfd_send_signal(&handle, signal) {
                Err(rustix::io::Errno::SRCH) => Ok(()),
                other => Ok(other?),
            },
            None => Ok(()),
        }
    }

    /// Waits until it has ended, at most for `limit`. Returns whether it has.
    pub fn wait(self, limit: Option<Duration>) -> io::Result<bool> {
        let Some(handle) = self.handle()? else { return Ok(true) };
        let end = limit.map(|limit| Instant::now() + limit);
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut [PollFd::new(&handle, PollFlags::IN)], left.as_ref()) {
                Ok(count) => return Ok(count > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends SIGTERM, and SIGKILL if the process has not ended within `grace`.
    pub fn end(self, grace: Duration) -> io::Result<()> {
        if grace > Duration::ZERO {
            self.signal(Signal::TERM)?;
            if self.wait(Some(grace))? {
                return Ok(());
            }
        }
        self.signal(Signal::KILL)?;
        // A killed process ends quickly; only one blocked in the kernel takes longer.
        self.wait(Some(Duration::from_secs(10)))?;
        Ok(())
    }

    /// Returns a handle that can never refer to another process. `None` if the process has ended.
    fn handle(self) -> io::Result<Option<OwnedFd>> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(None) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            // The check follows the opening of the handle: from then on the pid cannot be reused
            // unnoticed.
            Ok(handle) => {
                Ok(Stat::of(self.pid).is_some_and(|stat| stat.started == self.started).then_some(handle))
            }
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Starts a program of the lab in a role: with output to its log, detached from the terminal's
/// signals, and recorded.
///
/// # Errors
/// Returns an error if the program cannot be started, or the record cannot be written.
pub fn start(layout: &Layout, role: &str, command: &mut Command) -> Result<Process> {
    let log = layout.log(role);
    let output = File::options()
        .create(true)
        .append(true)
        .open(&log)
        .with_context(|| format!("cannot open {}", log.display()))?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {role} with {}", command.get_program().display()))?;
    let pid = i32::try_from(child.id()).context("a pid is a positive i32")?;
    let process = Process::of(pid).with_context(|| format!("{role} ended at once: see {}", log.display()))?;
    process.write(&layout.record(role))?;
    // Reaped here if the starter outlives the program, otherwise by init.
    thread::spawn(move || child.wait());
    Ok(process)
}

/// Returns the recorded process of a role if it is running.
pub fn running(layout: &Layout, role: &str) -> Option<Process> {
    Process::read(&layout.record(role)).filter(|process| process.is_alive())
}

/// Returns all recorded processes of a lab with their roles, running or not.
pub fn recorded(layout: &Layout) -> Vec<(String, Process)> {
    let Ok(entries) = fs::read_dir(layout.dir().join("processes")) else { return Vec::new() };
    let mut all: Vec<(String, Process)> = entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, Process::read(&entry.path())?)))
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// The relevant fields of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    started: u64,
    /// Whether the process has ended and awaits reaping.
    ended: bool,
    /// Whether a signal has stopped it.
    stopped: bool,
}

impl Stat {
    fn of(pid: i32) -> Option<Self> {
        Self::read(Path::new(&format!("/proc/{pid}/stat")))
    }

    fn read(file: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(file).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The second field is the program's name in parentheses and may contain any character.
        let mut fields = text.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let (ended, stopped) = (matches!(state, "Z" | "X"), state == "T");
        Some(Self { started: fields.nth(18)?.parse().ok()?, ended, stopped })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_its_pid_and_its_start_time() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::of(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(process.is_alive());
        let stranger = Process { started: process.started + 1, ..process };
        assert!(!stranger.is_alive());
        stranger.signal(Signal::KILL).unwrap();
        assert!(stranger.wait(None).unwrap());
        assert!(process.is_alive(), "a signal reached a process of another start time");
        assert!(!process.wait(Some(Duration::ZERO)).unwrap());
        assert!(!process.is_suspended());
        process.signal(Signal::STOP).unwrap();
        while !process.is_suspended() {
            thread::yield_now();
        }
        process.end(Duration::from_secs(10)).unwrap();
        assert!(!process.is_alive(), "a zombie counts as ended");
        child.wait().unwrap();
        assert!(process.wait(None).unwrap());
    }

    #[test]
    fn a_record_survives_a_round_trip() {
        let dir = tempfile::tempdir().unwrap();
        let record = dir.path().join("etcd");
        let own = Process::own().unwrap();
        own.write(&record).unwrap();
        assert_eq!(Process::read(&record), Some(own));
        assert_eq!(own.pid(), i32::try_from(std::process::id()).unwrap());
        fs::write(&record, "what").unwrap();
        assert_eq!(Process::read(&record), None);
    }

    #[test]
    fn a_name_with_parentheses_does_not_confuse_the_start_time() {
        let stat = "7 (a) (b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
        assert_eq!(Stat::parse(stat), Some(Stat { started: 4242, ended: false, stopped: false }));
        for (state, ended, stopped) in [(" Z ", true, false), (" T ", false, true)] {
            let expected = Stat { started: 4242, ended, stopped };
            assert_eq!(Stat::parse(&stat.replace(" S ", state)), Some(expected));
        }
    }
}
