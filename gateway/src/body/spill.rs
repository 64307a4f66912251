//! The part of one body that is on disk.
//!
//! All file operations run on the blocking pool of the runtime, one piece at a time, because a disk
//! may block for any time and an event loop must not. This includes closing: the file has no name,
//! so closing it frees its blocks.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};

use super::disk::{Disk, DiskShare};

/// The bytes of one body on disk.
#[derive(Debug)]
pub(crate) struct Spill {
    file: Option<Arc<File>>,
    length: u64,
    share: DiskShare,
    job: Option<Job>,
}

/// Bytes that were not written. They are lost only if no thread could run the job.
#[derive(Debug)]
pub(crate) struct Unwritten {
    pub(crate) error: io::Error,
    pub(crate) bytes: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Job {
    /// The bytes that were read or written, and the file, which the first write creates.
    work: JoinHandle<(Vec<u8>, io::Result<Arc<File>>)>,
    /// Offset of the bytes that the job reads. `None` for a write.
    reads: Option<u64>,
    /// Bytes of memory that the job writes.
    memory: usize,
}

impl Spill {
    /// Creates an empty spill. Its file is created by the first write.
    pub(crate) fn new(disk: Arc<Disk>) -> Self {
        Self { file: None, length: 0, share: DiskShare::of(disk), job: None }
    }

    /// Starts to append `bytes`. No other job may be running.
    ///
    /// # Errors
    /// The total limit for all bodies is reached.
    pub(crate) fn write(&mut self, bytes: Vec<u8>) -> Result<(), Unwritten> {
        debug_assert!(self.job.is_none(), "one piece at a time");
        let (count, memory) = (bytes.len() as u64, bytes.capacity());
        if !self.share.grow(count) {
            return Err(Unwritten { error: io::ErrorKind::StorageFull.into(), bytes: Some(bytes) });
        }
        let (file, disk, at) = (self.file.clone(), self.share.disk().clone(), self.length);
        self.length += count;
        let work = spawn_blocking(move || {
            let file = match file {
                Some(file) => Ok(file),
                None => disk.file().map(Arc::new),
            };
            let written = file.and_then(|file| file.write_all_at(&bytes, at).map(|()| file));
            (bytes, written)
        });
        self.job = Some(Job { work, reads: None, memory });
        Ok(())
    }

    /// Returns the bytes of memory that wait for the disk.
    pub(crate) fn memory(&self) -> usize {
        self.job.as_ref().map_or(0, |job| job.memory)
    }

    /// Returns the number of bytes on disk, with those that are being written.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Returns whether bytes are being written.
    pub(crate) fn is_writing(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.reads.is_none())
    }

    /// Returns whether bytes are being read.
    pub(crate) fn is_reading(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.reads.is_some())
    }

    /// Ready when no write is running. Returns the emptied buffer of the last write for reuse.
    ///
    /// # Errors
    /// The last write failed. Its bytes no longer count among those on disk.
    pub(crate) fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, Unwritten>> {
        if !self.is_writing() {
            return Poll::Ready(Ok(None));
        }
        let (mut bytes, written) = match ready!(self.poll_job(cx)) {
            Ok(done) => done,
            Err(error) => return Poll::Ready(Err(Unwritten { error, bytes: None })),
        };
        Poll::Ready(match written {
            Ok(()) => {
                bytes.clear();
                Ok(Some(bytes))
            }
            Err(error) => {
                self.length -= bytes.len() as u64;
                Err(Unwritten { error, bytes: Some(bytes) })
            }
        })
    }

    /// Reads up to `most` bytes from offset `at`, which must be below the length.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        at: u64,
        most: usize,
    ) -> Poll<io::Result<Vec<u8>>> {
        if self.job.as_ref().is_none_or(|job| job.reads != Some(at)) {
            let Some(file) = self.file.clone() else {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            };
            let count = usize::try_from(self.length - at).map_or(most, |left| left.min(most));
            let work = spawn_blocking(move || {
                let mut bytes = vec![0; count];
                let read = file.read_exact_at(&mut bytes, at).map(|()| file);
                (bytes, read)
            });
            self.job = Some(Job { work, reads: Some(at), memory: 0 });
        }
        let (bytes, read) = ready!(self.poll_job(cx))?;
        Poll::Ready(read.map(|()| bytes))
    }

    /// Ready when the job is done: its bytes, and whether it succeeded. The error is that no thread
    /// could run it.
    fn poll_job(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Vec<u8>, io::Result<()>)>> {
        let Some(job) = &mut self.job else { return Poll::Ready(Ok((Vec::new(), Ok(())))) };
        let done = ready!(Pin::new(&mut job.work).poll(cx));
        self.job = None;
        let (bytes, file) = done.map_err(io::Error::other)?;
        Poll::Ready(Ok((bytes, file.map(|file| self.file = Some(file)))))
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        // A job that no thread has started would hold its memory, without a reservation, until one
        // does.
        if let Some(job) = &self.job {
            job.work.abort();
        }
        let Some(file) = self.file.take() else { return };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn_blocking(move || drop(file));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn written_bytes_can_be_read_repeatedly_from_any_offset() {
        let disk = Arc::new(Disk::default());
        disk.set_limit(100);
        let mut spill = Spill::new(disk.clone());
        for piece in [&b"one "[..], b"two ", b"three"] {
            spill.write(piece.to_vec()).unwrap();
            poll_fn(|cx| spill.poll_written(cx)).await.unwrap();
        }
        for _ in 0..2 {
            assert_eq!(poll_fn(|cx| spill.poll_read(cx, 0, 8)).await.unwrap(), b"one two ");
            assert_eq!(poll_fn(|cx| spill.poll_read(cx, 8, 8)).await.unwrap(), b"three");
        }
        assert_eq!((spill.length, disk.used()), (13, 13));
        drop(spill);
        assert_eq!(disk.used(), 0);
    }

    #[tokio::test]
    async fn a_full_disk_and_a_folder_that_is_not_there_are_errors() {
        let disk = Arc::new(Disk::default());
        disk.set_limit(4);
        let mut spill = Spill::new(disk.clone());
        assert_eq!(spill.write(b"12345".to_vec()).unwrap_err().error.kind(), io::ErrorKind::StorageFull);
        disk.set_path("/nowhere/at/all".into());
        spill.write(b"1234".to_vec()).unwrap();
        assert!(poll_fn(|cx| spill.poll_written(cx)).await.is_err());
    }
}
