//! Number of workers: the number of CPUs that the cgroup's quota allows to run at once.
//!
//! The standard library rounds a quota of 1.5 CPUs down to one worker, which leaves a third of it
//! unused. This module rounds up, as ingress-nginx does for `worker-processes: auto`. The number
//! never exceeds the number of CPUs on which the process may run.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

/// Mount point of the cgroup hierarchies.
const ROOT: &str = "/sys/fs/cgroup";

/// Returns the number of workers, at least 1.
pub(crate) fn workers() -> usize {
    let memberships = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let quota = quota(&memberships, Path::new(ROOT), &|path| fs::read_to_string(path).ok());
    let usable = rustix::thread::sched_getaffinity(None).map_or_else(
        |_| available_parallelism().map_or(1, usize::from),
        |set| usize::try_from(set.count()).unwrap_or(1),
    );
    count(quota, usable)
}

fn count(quota: Option<f64>, usable: usize) -> usize {
    match quota {
        // A quota is a small positive number; the cast saturates.
        Some(cpus) => (cpus.ceil() as usize).clamp(1, usable.max(1)),
        None => usable.max(1),
    }
}

/// Returns the smallest quota of the process's cgroup and its ancestors, in CPUs; `None` if there
/// is none.
///
/// `memberships` is the content of `/proc/self/cgroup`: `0::/path` for version 2,
/// `4:cpu,cpuacct:/path` for version 1.
fn quota(memberships: &str, root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Option<f64> {
    let mut tightest: Option<f64> = None;
    for line in memberships.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (mount, version_2) = match controllers {
            "" => (root.to_owned(), true),
            list if list.split(',').any(|name| name == "cpu") => (root.join(list), false),
            _ => continue,
        };
        for folder in upwards(&mount, path) {
            let found = if version_2 {
                read(&folder.join("cpu.max")).and_then(|text| version_2_quota(&text))
            } else {
                let quota = read(&folder.join("cpu.cfs_quota_us"));
                let period = read(&folder.join("cpu.cfs_period_us"));
                quota.zip(period).and_then(|(quota, period)| version_1_quota(&quota, &period))
            };
            tightest = match (tightest, found) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
    }
    tightest
}

/// Returns the folder of the cgroup and its parents up to the mount. In a container, the path may
/// only exist on the host; the mount itself is then the container's own cgroup.
fn upwards(mount: &Path, path: &str) -> Vec<PathBuf> {
    let folder = mount.join(path.trim_start_matches('/'));
    folder.ancestors().take_while(|ancestor| ancestor.starts_with(mount)).map(Path::to_owned).collect()
}

/// Parses `cpu.max`: `QUOTA PERIOD` in microseconds, or `max PERIOD`.
fn version_2_quota(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    ratio(quota.parse().ok()?, period.parse().ok()?)
}

/// Parses the files of version 1. `cpu.cfs_quota_us` is -1 if there is no quota.
fn version_1_quota(quota: &str, period: &str) -> Option<f64> {
    ratio(quota.trim().parse().ok()?, period.trim().parse().ok()?)
}

fn ratio(quota: f64, period: f64) -> Option<f64> {
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn quota_of(memberships: &str, files: &[(&str, &str)]) -> Option<f64> {
        let files: HashMap<&str, &str> = files.iter().copied().collect();
        let read = |path: &Path| files.get(path.to_str().unwrap()).map(|text| (*text).to_owned());
        quota(memberships, Path::new("/c"), &read)
    }

    #[test]
    fn version_2_reads_cpu_max() {
        assert_eq!(quota_of("0::/\n", &[("/c/cpu.max", "150000 100000\n")]), Some(1.5));
        assert_eq!(quota_of("0::/\n", &[("/c/cpu.max", "max 100000\n")]), None);
        assert_eq!(quota_of("0::/\n", &[]), None);
    }

    #[test]
    fn version_1_reads_quota_and_period() {
        let files = [
            ("/c/cpu,cpuacct/p/cpu.cfs_quota_us", "50000\n"),
            ("/c/cpu,cpuacct/p/cpu.cfs_period_us", "100000"),
        ];
        assert_eq!(quota_of("5:memory:/p\n4:cpu,cpuacct:/p\n", &files), Some(0.5));
        let files =
            [("/c/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"), ("/c/cpu,cpuacct/cpu.cfs_period_us", "100000\n")];
        assert_eq!(quota_of("4:cpu,cpuacct:/\n", &files), None);
    }

    #[test]
    fn the_tightest_quota_on_the_way_up_counts() {
        let files = [("/c/pods/a/cpu.max", "max 100000"), ("/c/pods/cpu.max", "300000 100000")];
        assert_eq!(quota_of("0::/pods/a\n", &files), Some(3.0));
    }

    #[test]
    fn a_path_of_the_host_falls_back_to_the_mount() {
        assert_eq!(quota_of("0::/kubepods/x\n", &[("/c/cpu.max", "200000 100000")]), Some(2.0));
    }

    #[test]
    fn garbage_is_no_quota() {
        for text in ["", "x y", "100000", "0 100000", "100000 0", "-5 100000"] {
            assert_eq!(quota_of("0::/\nnonsense\n", &[("/c/cpu.max", text)]), None, "{text:?}");
        }
    }

    #[test]
    fn a_quota_is_rounded_up_and_bounded_by_the_usable_cpus() {
        assert_eq!(count(Some(1.5), 8), 2);
        assert_eq!(count(Some(0.1), 8), 1);
        assert_eq!(count(Some(64.0), 8), 8);
        assert_eq!(count(None, 8), 8);
        assert_eq!(count(None, 0), 1);
    }
}
