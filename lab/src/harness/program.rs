//! A program of a test inside the lab's network namespace. It ends with the value that stands for it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::Cluster;
use crate::process::Process;

/// A running program.
pub struct Program {
    name: String,
    child: Child,
    process: Process,
    log: PathBuf,
}

impl Program {
    /// Starts a program inside the lab. Its output goes to a file of the lab.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start<A: AsRef<OsStr>>(
        cluster: &Cluster,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Self> {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let log =
            cluster.lab.layout().log(&format!("{}-{name}-{:08x}", cluster.namespace, fastrand::u32(..)));
        let output = File::create(&log).with_context(|| format!("cannot make {}", log.display()))?;
        let child = Command::from(cluster.lab.command(program))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let process = pid.and_then(Process::of).with_context(|| format!("{name} ended at once"))?;
        Ok(Self { name, child, process, log })
    }

    /// A port of the lab's loopback that nothing listens on now, and that no other test of this process was given.
    ///
    /// # Errors
    /// When there is none.
    pub fn free_port() -> Result<u16> {
        static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
        // Held until another one is found: the kernel gives a port that is closed again to the next who asks.
        let mut refused = Vec::new();
        loop {
            let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            let port = listener.local_addr()?.port();
            if GIVEN.lock().unwrap_or_else(PoisonError::into_inner).insert(port) {
                return Ok(port);
            }
            refused.push(listener);
        }
    }

    /// What it has printed so far.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its process.
    pub fn process(&self) -> Process {
        self.process
    }

    /// Fails when it has ended, with what it has printed.
    ///
    /// # Errors
    /// When it has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} has ended ({status}):\n{}", self.name, self.output()),
        }
    }

    /// Asks it to end and waits until it has.
    ///
    /// # Errors
    /// When it takes longer than `grace`.
    pub async fn end(mut self, grace: Duration) -> Result<ExitStatus> {
        self.process.signal(Signal::TERM)?;
        match timeout(grace, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => bail!("{} has not ended within {grace:?}:\n{}", self.name, self.output()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_port_was_given_to_two_listeners_of_a_gateway() {
        let ports: BTreeSet<u16> = (0..2000).map(|_| Program::free_port().unwrap()).collect();
        assert_eq!(ports.len(), 2000);
    }
}
