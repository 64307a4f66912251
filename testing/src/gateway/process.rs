//! The process of a gateway: its use of the machine, and signals.

use std::net::SocketAddr;
use std::process::Child;
use std::time::Duration;
use std::{fs, io};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::Gateway;
use crate::epoll::{self, TcpState};
use crate::memory;

impl Gateway {
    /// Returns the CPU time of all threads so far.
    ///
    /// # Panics
    /// The system is not Linux.
    pub fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // After the name in brackets, user time is the 12th field and system time the 13th, in
        // hundredths of a second.
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Returns how many sockets of a local address each of the process's epoll instances watches.
    ///
    /// # Panics
    /// The system is not Linux.
    pub fn watched(&self, local: SocketAddr, state: TcpState) -> Vec<usize> {
        epoll::watched(self.child.id(), local, state)
    }

    /// Returns the resident memory in bytes.
    ///
    /// # Errors
    /// The process has ended, or the system is not Linux.
    pub fn resident(&self) -> io::Result<u64> {
        memory::resident(self.child.id())
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGHUP.
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Suspends the process (SIGSTOP) and waits until all its threads have stopped: what is sent to
    /// it waits in the kernel.
    ///
    /// # Panics
    /// The process has ended.
    pub fn suspend(&self) {
        suspend(&self.child);
    }

    /// Continues the suspended process (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Signals that its log files have been renamed (SIGUSR1).
    pub fn rotate_logs(&self) {
        self.signal(Signal::USR1);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

/// Suspends a child process (SIGSTOP) and waits until all its threads have stopped. It must run.
///
/// # Panics
/// The process has ended.
pub fn suspend(child: &Child) {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP).unwrap();
    let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(status.stopped(), "{status:?}");
}
