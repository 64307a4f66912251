//! The assignment of cores, and the description of the machine.

use std::fs;

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};

use super::tool;

/// The core of the proxy under test, and the core of everything else.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    /// The core of the proxy.
    pub proxy: usize,
    /// The core of the load generator and the origin.
    pub load: usize,
}

impl Cores {
    /// Returns the first two cores that this process may use.
    ///
    /// # Errors
    /// There are fewer cores, or `taskset` is missing. Figures of a proxy that shares its core with
    /// the load would be meaningless.
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

    /// Moves this process, and the load generators that it starts, to their core, and raises its
    /// limit of open files to the maximum.
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

/// Moves this thread, and everything that it starts later, to a core.
///
/// # Errors
/// The system refuses.
pub fn stay_on(core: usize) -> anyhow::Result<()> {
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only).context("cannot move to one core")
}

/// Returns the processor, kernel and date, for the report.
pub fn description() -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = read("/proc/sys/kernel/osrelease");
    // The suffix of a release name may identify a host. The version suffices.
    let kernel = kernel.trim().split('-').next().unwrap_or_default().to_owned();
    json!({
        "processor": model.map_or("unknown", |(_, name)| name),
        "cores": cores,
        "kernel": kernel,
        "day": tool::output("date", &["-u", "+%Y-%m-%d"]).unwrap_or_default(),
        "commit": tool::output("git", &["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into()),
    })
}
