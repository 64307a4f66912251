//! Disk space for bodies that are too large for memory: its location and total limit.
//!
//! Bodies in flight and stored responses each have a space of their own.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// State shared by all workers. Used only by bodies that go to disk.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// `--body-temp-path`.
    path: OnceLock<PathBuf>,
    /// `body-temp-max-size`.
    limit: AtomicU64,
    used: AtomicU64,
}

/// A reservation of disk space in bytes. Dropping it returns them.
#[derive(Debug)]
pub(crate) struct DiskShare {
    disk: Arc<Disk>,
    bytes: u64,
}

impl Disk {
    /// Sets the folder. Only the first call has an effect.
    pub(crate) fn set_path(&self, path: PathBuf) {
        // Two calls would mean two programs in one process.
        let _ = self.path.set(path);
    }

    /// Sets the total limit. Bodies that are already on disk stay.
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Relaxed);
    }

    /// Creates a file without a name, readable by this process only. Blocks.
    pub(crate) fn file(&self) -> io::Result<File> {
        let file = match self.path.get() {
            Some(path) => tempfile::tempfile_in(path),
            None => tempfile::tempfile(),
        }?;
        // The file is reachable through `/proc/<pid>/fd`, so its mode matters even without a name.
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(file)
    }

    /// Returns the total limit.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Returns the bytes that bodies occupy now.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }
}

impl DiskShare {
    /// Creates a reservation of 0 bytes.
    pub(crate) fn of(disk: Arc<Disk>) -> Self {
        Self { disk, bytes: 0 }
    }

    pub(crate) fn disk(&self) -> &Arc<Disk> {
        &self.disk
    }

    /// Adds `bytes` to the reservation. Returns false if that exceeds the limit.
    #[must_use]
    pub(crate) fn grow(&mut self, bytes: u64) -> bool {
        let limit = self.disk.limit();
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        let got = self.disk.used.fetch_update(Relaxed, Relaxed, fits).is_ok();
        if got {
            self.bytes += bytes;
        }
        got
    }
}

impl Drop for DiskShare {
    fn drop(&mut self) {
        self.disk.used.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn reservations_stay_within_the_limit_and_are_all_returned() {
        let disk = Arc::new(Disk::default());
        disk.set_limit(10);
        let (mut one, mut other) = (DiskShare::of(disk.clone()), DiskShare::of(disk.clone()));
        assert!(one.grow(4) && other.grow(6) && !one.grow(1));
        drop(other);
        assert!(one.grow(6) && !one.grow(u64::MAX));
        drop(one);
        assert_eq!(disk.used(), 0);
    }

    #[test]
    fn a_file_has_no_name_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        disk.set_path(folder.path().to_owned());
        let file = disk.file().unwrap();
        let metadata = file.metadata().unwrap();
        assert_eq!(metadata.mode() & 0o777, 0o600);
        assert_eq!(metadata.nlink(), 0);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
