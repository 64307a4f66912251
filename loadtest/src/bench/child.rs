//! A running proxy on its own core.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

use super::agent::Agent;
use super::feature::Feature;
use super::peer::Peer;
use super::setup::{HOST, OUTPUT, Setup};
use super::usage::{self, Usage};
use crate::client::GatewayTarget;

/// Time limit for its start and end.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A running proxy. Killed when dropped.
#[derive(Debug)]
pub struct Running {
    /// Its addresses and files.
    pub setup: Arc<Setup>,
    name: String,
    child: Child,
    family: Vec<u32>,
    log: PathBuf,
    /// Held for its destructor.
    _agent: Option<Agent>,
}

/// Sends a request as the load does, and returns its status: a route with a feature may reject
/// others.
async fn ask(target: &GatewayTarget, feature: Option<Feature>) -> anyhow::Result<u16> {
    let fields = feature.map(Feature::field_lines).unwrap_or_default();
    let answer = target.get_once_with(feature.map_or("/", Feature::path), &fields).await?;
    Ok(answer.status)
}

impl Running {
    /// Starts a proxy on a core, waits until it forwards a request, and checks that a feature has
    /// effect. `through` is a command that
    /// executes the one that follows it, to set limits; it is usually empty.
    ///
    /// # Errors
    /// The proxy cannot be started, exits, or does not respond in time; the message contains its
    /// output.
    pub async fn start(peer: &Peer, setup: Setup, core: usize, through: &[&str]) -> anyhow::Result<Self> {
        let wanted = peer.command(&setup)?;
        let feature = setup.setting.feature;
        let needs_agent = matches!(peer, Peer::Sluice(_)) && feature.is_some_and(Feature::needs_agent);
        let agent = needs_agent.then(|| Agent::start(&setup, core)).transpose()?;
        let log = setup.file("output.log");
        // Access logs on standard output go to a file in the same folder as nginx's.
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
        let agent_process = agent.as_ref().map(Agent::process);
        let mut running = Self {
            setup: Arc::new(setup),
            name: peer.name().to_owned(),
            child,
            family: Vec::new(),
            log,
            _agent: agent,
        };
        let target = GatewayTarget::plain(running.setup.http, HOST);
        let started = Instant::now();
        while !matches!(ask(&target, feature).await, Ok(200)) {
            let ended = running.child.try_wait()?;
            anyhow::ensure!(
                ended.is_none() && started.elapsed() < TIMEOUT,
                "{} does not answer ({ended:?}):\n{}",
                running.name,
                running.log()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        running.family = usage::family(running.child.id())?;
        running.family.extend(agent_process);
        if let Some(feature) = feature {
            feature.prove(peer, &target).await?;
        }
        Ok(running)
    }

    /// Returns its first process, for signals.
    pub fn process(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Returns the CPU time of all its processes so far.
    pub fn cpu_time(&self) -> Usage {
        usage::cpu_time(&self.family)
    }

    /// Returns the memory of all its processes in bytes.
    ///
    /// # Errors
    /// It has exited.
    pub fn memory(&self) -> anyhow::Result<u64> {
        usage::memory(&self.family).with_context(|| format!("{} ended:\n{}", self.name, self.log()))
    }

    /// Ends it.
    ///
    /// # Errors
    /// Waiting for it fails.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        // It may already have exited, which shows in the figures.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let asked = Instant::now();
        while self.child.try_wait()?.is_none() && asked.elapsed() < Duration::from_secs(2) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Returns the first lines of its output, without the access log.
    fn log(&self) -> String {
        let text = |path: &PathBuf| fs::read_to_string(path).unwrap_or_default();
        let all = text(&self.log) + &text(&self.setup.file("error.log"));
        all.lines().take(20).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After a stop the processes are gone, and their pids may have been reused.
        if matches!(self.child.try_wait(), Ok(None)) {
            for process in self.family.drain(..).filter_map(|process| Pid::from_raw(process.cast_signed())) {
                let _ = kill_process(process, Signal::KILL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
