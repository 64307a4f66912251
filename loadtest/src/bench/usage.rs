//! Resource usage of processes, from `/proc`.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use rustix::param::clock_ticks_per_second;

/// CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time in user mode.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
}

impl Usage {
    /// Returns the sum.
    pub fn total(self) -> Duration {
        self.user + self.system
    }

    /// Returns the difference to an earlier reading.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// Returns a process and its descendants.
///
/// # Errors
/// There is no `/proc`.
pub fn family(root: u32) -> anyhow::Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").context("there is no /proc; the benchmark needs Linux")? {
        let name = entry?.file_name();
        if let Some(process) = name.to_str().and_then(|name| name.parse::<u32>().ok())
            && let Some(stat) = Stat::read(process)
        {
            parents.push((process, stat.parent));
        }
    }
    let mut family = vec![root];
    let mut next = 0;
    while let Some(&member) = family.get(next) {
        family.extend(parents.iter().filter(|(_, parent)| *parent == member).map(|(child, _)| *child));
        next += 1;
    }
    Ok(family)
}

/// Returns the CPU time of running processes, their threads, and their ended children.
pub fn cpu_time(processes: &[u32]) -> Usage {
    let tick = Duration::from_secs(1) / u32::try_from(clock_ticks_per_second()).unwrap_or(100);
    let mut usage = Usage::default();
    for stat in processes.iter().filter_map(|&process| Stat::read(process)) {
        usage.user += tick * stat.user;
        usage.system += tick * stat.system;
    }
    usage
}

/// Returns the memory of processes in bytes. Shared memory counts once.
///
/// # Errors
/// A process has ended, or belongs to another user.
pub fn memory(processes: &[u32]) -> anyhow::Result<u64> {
    let mut sum = 0;
    for process in processes {
        let path = format!("/proc/{process}/smaps_rollup");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        sum += kilobytes.with_context(|| format!("no Pss in {path}"))? * 1024;
    }
    Ok(sum)
}

/// The relevant fields of `/proc/PID/stat` (see proc(5)).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    user: u32,
    system: u32,
}

impl Stat {
    fn read(process: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The program's name is in parentheses and may contain any character.
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |index: usize| fields.get(index)?.parse::<u32>().ok();
        Some(Self { parent: number(1)?, user: number(11)? + number(13)?, system: number(12)? + number(14)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let text =
            "7 (a) b (c) S 5 7 7 0 -1 4194304 100 0 0 0 30 40 1 2 20 0 1 0 99 0 0 18446744073709551615";
        assert_eq!(Stat::parse(text), Some(Stat { parent: 5, user: 31, system: 42 }));
    }

    #[test]
    fn this_process_is_of_its_family_and_has_memory() {
        let own = std::process::id();
        let family = family(own).unwrap();
        assert!(family.contains(&own));
        assert!(memory(&[own]).unwrap() > 0);
    }
}
