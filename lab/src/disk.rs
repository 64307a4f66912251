//! Space on the disk of the lab's folder. On a full disk, the API server's store stops, and the API
//! answers every write with a timeout that does not name the cause.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// Free space in bytes that a lab needs for its store and the logs of its programs.
const NEEDED: u64 = 2 << 30;

/// Checks the free space of a folder's disk.
///
/// # Errors
/// The space is too small, or cannot be read.
pub(crate) fn require_space(folder: &Path) -> Result<()> {
    let free = free(folder)?;
    if free < NEEDED {
        bail!(
            "{}: {} are free on its disk, a lab needs {}; free some, or name a folder on another disk \
             in SLUICE_LAB_STATE",
            folder.display(),
            mebibytes(free),
            mebibytes(NEEDED)
        );
    }
    Ok(())
}

fn free(folder: &Path) -> Result<u64> {
    let stat = rustix::fs::statvfs(folder)
        .with_context(|| format!("cannot read the free space of {}", folder.display()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_free_space_of_a_folder_that_is_missing_is_an_error() {
        let missing = Path::new("/no/such/folder");
        assert!(format!("{:#}", require_space(missing).unwrap_err()).contains("/no/such/folder"));
    }

    #[test]
    fn a_full_disk_is_named() {
        // A file system of the kernel without space.
        let error = require_space(Path::new("/proc")).unwrap_err().to_string();
        assert!(error.contains("0 MiB are free") && error.contains("SLUICE_LAB_STATE"), "{error}");
    }
}
