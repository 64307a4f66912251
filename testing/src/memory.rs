//! Memory usage of a process.

use std::process::Command;
use std::{env, fs, io};

/// Environment variable that marks a process for a single test.
const ALONE: &str = "SLUICE_TEST_ALONE";

/// Returns the resident memory of a process in bytes.
///
/// # Errors
/// The process has ended, or the system is not Linux.
pub fn resident(pid: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    Ok(kilobytes.ok_or_else(|| io::Error::other("the process has ended: it has no memory"))? * 1024)
}

/// Returns whether this process runs a single test. If it does not, runs the test `name` in such a
/// process, where no other test allocates memory, and returns false: the caller must return then.
///
/// # Panics
/// The test fails there, or `name` is not the name of exactly one test.
#[track_caller]
pub fn runs_alone(name: &str) -> bool {
    if env::var_os(ALONE).is_some() {
        return true;
    }
    let program = env::current_exe().unwrap();
    let output = Command::new(program).args([name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{name}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    false
}
