//! A program that a test runs where the cluster is reachable. It is killed when its value is
//! dropped.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
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
    /// Starts a program. Its output goes to a file of the test.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub fn start<A: AsRef<OsStr>>(
        cluster: &Cluster,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Self> {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let log = cluster.file(&format!("{name}-{:08x}.log", fastrand::u32(..)));
        let output = File::create(&log).with_context(|| format!("cannot make {}", log.display()))?;
        let child = Command::from(cluster.command(program))
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

    /// Returns its output so far.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns its process.
    pub fn process(&self) -> Process {
        self.process
    }

    /// Checks that it is running.
    ///
    /// # Errors
    /// Returns an error if it has exited; the message contains its output.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} has ended ({status}):\n{}", self.name, self.output()),
        }
    }

    /// Sends SIGTERM and waits until it has exited.
    ///
    /// # Errors
    /// Returns an error if it takes longer than `grace`.
    pub async fn end(mut self, grace: Duration) -> Result<ExitStatus> {
        self.process.signal(Signal::TERM)?;
        match timeout(grace, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => bail!("{} has not ended within {grace:?}:\n{}", self.name, self.output()),
        }
    }
}
