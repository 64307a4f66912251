//! A body that goes to a file while it arrives, because it is too large for memory.
//!
//! One piece is written while the next ones arrive. If the disk is slower than the endpoint, the
//! response waits for it, but not for long: then it is not stored.

use std::io;
use std::mem;

use tokio::task::JoinHandle;

use super::files::{BodyFile, FileWriter, Operation, PIECE};
use super::jobs;
use super::store::Store;

/// Bytes that wait while others are written, before the response waits, too.
const WAITING: usize = 4 * PIECE;

/// A job that returns the file and whether there was room in it.
type WriteJob = JoinHandle<(Option<FileWriter>, io::Result<bool>)>;

/// A body on its way to a file.
pub(super) struct Transfer {
    store: &'static Store,
    /// The file, while no job has it. The first job creates it.
    writer: Option<FileWriter>,
    job: Option<WriteJob>,
    /// Bytes of memory that the job holds.
    in_job: usize,
    waiting: Vec<u8>,
    length: u64,
}

/// The body is not stored.
#[derive(Debug)]
pub(super) struct NotStored;

impl Transfer {
    /// Begins with the bytes that have arrived.
    pub(super) fn new(store: &'static Store, begin: Vec<u8>) -> Self {
        let length = begin.len() as u64;
        Self { store, writer: None, job: None, in_job: 0, waiting: begin, length }
    }

    /// Returns the bytes of memory that the transfer takes.
    pub(super) fn memory(&self) -> usize {
        self.waiting.capacity() + self.in_job + BodyFile::memory(self.length)
    }

    /// Returns the bytes that have arrived.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// The body cannot be stored. A failure of the disk was recorded.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), NotStored> {
        self.waiting.extend_from_slice(bytes);
        self.length += bytes.len() as u64;
        let is_idle = self.job.as_ref().is_none_or(JoinHandle::is_finished);
        if self.waiting.len() >= WAITING || (is_idle && self.waiting.len() >= PIECE) {
            self.pass_on().await?;
        }
        Ok(())
    }

    /// Ends the body.
    ///
    /// # Errors
    /// The body cannot be stored. A failure of the disk was recorded.
    pub(super) async fn finish(mut self) -> Result<BodyFile, NotStored> {
        self.pass_on().await?;
        self.written().await?;
        let writer = self.writer.take().ok_or(NotStored)?;
        if let Some(files) = self.store.files() {
            files.succeeded();
        }
        Ok(writer.finish())
    }

    /// Starts to write what waits, once the last write is complete.
    async fn pass_on(&mut self) -> Result<(), NotStored> {
        self.written().await?;
        let (store, bytes) = (self.store, mem::take(&mut self.waiting));
        let (writer, in_job) = (self.writer.take(), bytes.capacity());
        let files = store.files().ok_or(NotStored)?.clone();
        let write = move || {
            let mut writer = match writer.map_or_else(|| files.create(), Ok) {
                Ok(writer) => writer,
                Err(error) => return (None, Err(error)),
            };
            let written = writer.write(&bytes, || store.evict_file_now());
            (Some(writer), written)
        };
        let job = jobs::start(write).await.map_err(|error| self.failed(&error))?;
        (self.job, self.in_job) = (Some(job), in_job);
        Ok(())
    }

    /// Waits until no write is running.
    async fn written(&mut self) -> Result<(), NotStored> {
        let Some(job) = self.job.take() else { return Ok(()) };
        let (writer, written) = jobs::in_time(job).await.map_err(|error| self.failed(&error))?;
        (self.writer, self.in_job) = (writer, 0);
        match written {
            Ok(true) => Ok(()),
            Ok(false) => Err(NotStored),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &io::Error) -> NotStored {
        if let Some(files) = self.store.files() {
            files.failed(Operation::Write, error);
        }
        NotStored
    }
}
