//! Bodies of stored responses in files (`--cache-path`).
//!
//! A file has the content of one body. What describes it is in memory: its length, and a hash of
//! each piece, which is compared before the piece is used. Files therefore need no format, and a
//! restart begins with an empty folder.
//!
//! A disk may block for any time, so no worker waits for it on its own thread: bodies are read, and
//! large ones written, by the blocking pool; bodies that leave memory are written by a thread of
//! their own, which also removes files. While the folder is unusable, responses are stored in
//! memory only.

mod body_file;
mod folder;
mod health;
mod thread;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;
use tokio::sync::watch;

use self::folder::Folder;
use self::health::FolderHealth;
use self::thread::FileThread;
use super::keyed_hash::SipKey;
use crate::body::disk::{Disk, DiskShare};

pub(super) use body_file::{BodyFile, FileWriter, PieceError};
pub(crate) use folder::FolderFault;
pub use health::FileErrors;

/// Bytes of a body that have one hash, and that are read at once.
pub(super) const PIECE: usize = 64 * 1024;

/// Use of the folder for bodies of stored responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileUse {
    /// Bytes of all files, in blocks of the file system.
    pub bytes: u64,
    /// Maximum of bytes.
    pub limit: u64,
    /// Number of responses whose bodies are in files.
    pub entries: usize,
    /// How many operations failed.
    pub errors: FileErrors,
}

/// The files of a folder.
#[derive(Debug)]
pub(super) struct Files {
    folder: Folder,
    space: Arc<Disk>,
    health: FolderHealth,
    thread: FileThread,
    next: AtomicU64,
    /// Key of the hashes of pieces: random, so that no content can be made to fit one.
    hash_key: SipKey,
}

impl Files {
    /// Takes possession of a folder, which must be empty apart from files of this program, and
    /// removes these. Blocks.
    ///
    /// # Errors
    /// The folder cannot be used, or the thread cannot be started.
    pub(super) fn open(path: &Path) -> Result<Arc<Self>, FolderFault> {
        let folder = Folder::open(path)?;
        let thread = FileThread::start().map_err(|error| FolderFault::of(path, "use", &error))?;
        Ok(Arc::new(Self {
            health: FolderHealth::new(path),
            folder,
            space: Arc::default(),
            thread,
            next: AtomicU64::new(0),
            hash_key: SipKey::random(),
        }))
    }

    /// Sets the total limit in bytes. Files that exist stay.
    pub(super) fn set_limit(&self, bytes: u64) {
        self.space.set_limit(bytes);
    }

    /// Returns the total limit in bytes.
    pub(super) fn limit(&self) -> u64 {
        self.space.limit()
    }

    /// Returns the bytes of all files, including those that are about to be removed.
    pub(super) fn used(&self) -> u64 {
        self.space.used()
    }

    /// Returns whether the folder is in use: it may hold bytes, and its last failure is some time
    /// ago.
    pub(super) fn are_usable(&self) -> bool {
        self.limit() > 0 && self.health.is_good()
    }

    /// Creates an empty file. Blocks.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn create(self: &Arc<Self>) -> std::io::Result<FileWriter> {
        FileWriter::create(self.clone())
    }

    /// Runs a job on the thread for files, after all earlier ones.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.thread.run(Box::new(job));
    }

    /// Counts a failed operation, and suspends the use of the folder.
    pub(super) fn failed(&self, operation: Operation, error: &std::io::Error) {
        self.health.failed(operation, error);
    }

    /// Records that a file was written, which ends a problem.
    pub(super) fn succeeded(&self) {
        self.health.succeeded();
    }

    /// Counts a body that is not the one that was written.
    pub(super) fn damaged(&self) {
        self.health.damaged();
    }

    /// Returns how many operations failed.
    pub(super) fn errors(&self) -> FileErrors {
        self.health.errors()
    }

    /// Returns what makes the folder unusable at present.
    pub(super) fn faults(&self) -> watch::Receiver<Option<FolderFault>> {
        self.health.faults()
    }

    fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    fn space(&self) -> DiskShare {
        DiskShare::of(self.space.clone())
    }

    fn open_file(&self, id: u64) -> std::io::Result<File> {
        File::open(self.folder.file(id))
    }
}

/// An operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
}

#[cfg(test)]
mod tests;
