//! A proxy that runs, on its own core.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

use super::feature::Feature;
use super::peer::Peer;
use super::setup::{HOST, OUTPUT, Setup};
use super::usage::{self, Usage};
use crate::client::Target;

/// How long it may take to answer, or to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A proxy that runs. Ended when dropped.
#[derive(Debug)]
pub struct Running {
    /// Where it listens, and its files.
    pub setup: Arc<Setup>,
    name: String,
    child: Child,
    family: Vec<u32>,
    log: PathBuf,
}

/// The status of a request as the load makes them: a route with a feature may answer no other.
async fn ask(target: &Target, feature: Option<Feature>) -> anyhow::Result<u16> {
    let fields = feature.map(Feature::fields).unwrap_or_default().iter();
    let fields: String = fields.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let answer = target.get_once_with(feature.map_or("/", Feature::path), &fields).await?;
    Ok(answer.status)
}

impl Running {
    /// Starts a proxy on a core and waits until it passes a request on. `through` are words of a command that runs
    /// the one that follows it, for limits; most often there are none.
    ///
    /// # Errors
    /// It cannot be started, ends, or does not answer in time; what it printed is in the message.
    pub async fn start(peer: &Peer, setup: Setup, core: usize, through: &[&str]) -> anyhow::Result<Self> {
        let wanted = peer.command(&setup)?;
        let log = setup.file("output.log");
        // Whatever a proxy prints as its access log goes to a file of the same folder as nginx's.
        let output = File::create(setup.file(OUTPUT))?;
        let child = Command::new("taskset")
            .args(["-c", &core.to_string()])
            .args(through)
            .arg(wanted.get_program())
            .args(wanted.get_args())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(File::create(&log)?)
            .spawn()
            .context("cannot start taskset")?;
        let mut running =
            Self { setup: Arc::new(setup), name: peer.name().to_owned(), child, family: Vec::new(), log };
        let target = Target::plain(running.setup.http, HOST);
        let started = Instant::now();
        while !matches!(ask(&target, running.setup.setting.feature).await, Ok(200)) {
            let ended = running.child.try_wait()?;
            anyhow::ensure!(
                ended.is_none() && started.elapsed() < PATIENCE,
                "{} does not answer ({ended:?}):\n{}",
                running.name,
                running.log()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        running.family = usage::family(running.child.id())?;
        Ok(running)
    }

    /// Its first process, for signals.
    pub fn process(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// CPU time of all of its processes so far.
    pub fn cpu_time(&self) -> Usage {
        usage::cpu_time(&self.family)
    }

    /// Memory of all of its processes in bytes.
    ///
    /// # Errors
    /// It has ended.
    pub fn memory(&self) -> anyhow::Result<u64> {
        usage::memory(&self.family).with_context(|| format!("{} ended:\n{}", self.name, self.log()))
    }

    /// Ends it.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        // It may have ended on its own, which the figures have shown.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let asked = Instant::now();
        while self.child.try_wait()?.is_none() && asked.elapsed() < Duration::from_secs(2) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// The beginning of what it printed beside the access log.
    fn log(&self) -> String {
        let text = |path: &PathBuf| fs::read_to_string(path).unwrap_or_default();
        let all = text(&self.log) + &text(&self.setup.file("error.log"));
        all.lines().take(20).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // They are gone already when it was stopped, and their numbers may be somebody else's.
        if matches!(self.child.try_wait(), Ok(None)) {
            for process in self.family.drain(..).filter_map(|process| Pid::from_raw(process.cast_signed())) {
                let _ = kill_process(process, Signal::KILL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
