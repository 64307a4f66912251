//! Whether the folder works, and how often it did not.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::watch;

use super::Operation;
use super::folder::FolderFault;

/// How long the folder is not used after a failure.
const PAUSE: Duration = Duration::from_secs(5);

/// Numbers of failed operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileErrors {
    /// Bodies that could not be read.
    pub read: u64,
    /// Bodies that could not be written.
    pub write: u64,
    /// Bodies that were not those that were written.
    pub damage: u64,
}

/// The state of the folder.
#[derive(Debug)]
pub(super) struct FolderHealth {
    folder: PathBuf,
    started: Instant,
    /// Milliseconds from `started` until which the folder is not used.
    paused_until: AtomicU64,
    read: AtomicU64,
    write: AtomicU64,
    damage: AtomicU64,
    faults: watch::Sender<Option<FolderFault>>,
}

impl FolderHealth {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.into(),
            started: Instant::now(),
            paused_until: AtomicU64::new(0),
            read: AtomicU64::new(0),
            write: AtomicU64::new(0),
            damage: AtomicU64::new(0),
            faults: watch::Sender::default(),
        }
    }

    pub(super) fn is_good(&self) -> bool {
        let until = self.paused_until.load(Relaxed);
        until == 0 || self.elapsed() >= until
    }

    pub(super) fn failed(&self, operation: Operation, error: &io::Error) {
        let (count, verb) = match operation {
            Operation::Read => (&self.read, "read"),
            Operation::Write => (&self.write, "write"),
        };
        count.fetch_add(1, Relaxed);
        self.paused_until.store(self.elapsed() + PAUSE.as_millis() as u64, Relaxed);
        let fault = Some(FolderFault::of(&self.folder, verb, error));
        self.faults.send_if_modified(|known| {
            let is_new = *known != fault;
            *known = fault;
            is_new
        });
    }

    pub(super) fn succeeded(&self) {
        if self.paused_until.load(Relaxed) == 0 || !self.is_good() {
            return;
        }
        self.paused_until.store(0, Relaxed);
        self.faults.send_if_modified(|known| known.take().is_some());
    }

    pub(super) fn damaged(&self) {
        self.damage.fetch_add(1, Relaxed);
        tracing::warn!(folder = %self.folder.display(), "a stored response is damaged, and was removed; check the disk");
    }

    pub(super) fn errors(&self) -> FileErrors {
        let count = |count: &AtomicU64| count.load(Relaxed);
        FileErrors { read: count(&self.read), write: count(&self.write), damage: count(&self.damage) }
    }

    pub(super) fn faults(&self) -> watch::Receiver<Option<FolderFault>> {
        self.faults.subscribe()
    }

    fn elapsed(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_suspends_the_use_until_a_write_succeeds() {
        let health = FolderHealth::new(Path::new("/cache"));
        let faults = health.faults();
        assert!(health.is_good() && faults.borrow().is_none());
        health.failed(Operation::Write, &io::ErrorKind::StorageFull.into());
        health.failed(Operation::Read, &io::ErrorKind::StorageFull.into());
        assert!(!health.is_good() && faults.borrow().is_some());
        health.succeeded();
        assert!(faults.borrow().is_some(), "what was written before the failure ends no pause");
        health.paused_until.store(1, Relaxed);
        while !health.is_good() {
            std::thread::yield_now();
        }
        assert!(faults.borrow().is_some(), "the problem stays until the folder works");
        health.succeeded();
        assert!(health.is_good() && faults.borrow().is_none());
        assert_eq!(health.errors(), FileErrors { read: 1, write: 1, damage: 0 });
    }
}
