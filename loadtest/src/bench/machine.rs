//! The machine: which core is whose, and what to say about it beside the figures.

use std::fs;

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};

use super::tool;

/// The core of the proxy under test, and the core of everything else.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    /// The proxy's.
    pub proxy: usize,
    /// The load generator's and the origin's.
    pub load: usize,
}

impl Cores {
    /// The first two cores that this process may use.
    ///
    /// # Errors
    /// There are fewer, or `taskset` is missing: figures of proxies that share a core with their load mean nothing.
    pub fn find() -> anyhow::Result<Self> {
        let usable = sched_getaffinity(None).context("cannot ask for the usable cores")?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| usable.is_set(core));
        let (Some(proxy), Some(load)) = (cores.next(), cores.next()) else {
            anyhow::bail!(
                "the benchmark needs two cores, one for the proxy and one for the load; this machine gives {}",
                usable.count()
            );
        };
        tool::find("taskset", "util-linux")?;
        Ok(Self { proxy, load })
    }

    /// Moves this process, and with it the load generators that it starts, to their core, and lets it open as many
    /// files as it may.
    ///
    /// # Errors
    /// The system refuses.
    pub fn claim(self) -> anyhow::Result<()> {
        stay_on(self.load)?;
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
            .context("cannot raise the limit of open files")
    }
}

/// Moves this thread, and with it all that it starts, to a core.
///
/// # Errors
/// The system refuses.
pub fn stay_on(core: usize) -> anyhow::Result<()> {
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only).context("cannot move to one core")
}

/// Processor, kernel and day, for those who read the figures later.
pub fn description() -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = read("/proc/sys/kernel/osrelease");
    // Release names can hold a host's own suffix; the version is what matters.
    let kernel = kernel.trim().split('-').next().unwrap_or_default().to_owned();
    json!({
        "processor": model.map_or("unknown", |(_, name)| name),
        "cores": cores,
        "kernel": kernel,
        "day": tool::output("date", &["-u", "+%Y-%m-%d"]).unwrap_or_default(),
        "commit": tool::output("git", &["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into()),
    })
}
