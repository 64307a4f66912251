//! How much memory a process has.

use std::{fs, io};

/// Resident memory of a process in bytes.
///
/// # Errors
/// It has ended, or this is not Linux.
pub fn resident(pid: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    Ok(kilobytes.ok_or_else(|| io::Error::other("the process has ended: it has no memory"))? * 1024)
}
