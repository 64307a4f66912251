//! A folder of manifests as a source.
//!
//! A thread is notified by the kernel when a file is closed after writing, renamed or removed. It
//! reads only that file and sends the differences. There are no timers: notifications that have
//! accumulated are processed together. A file that is being written again by then is read when it
//! is closed again. If notifications fail (no watches left, queue overflow), the whole folder is
//! compared, and once per second while that lasts; files with an unchanged stamp are not read. It
//! is also compared every 30 seconds, because some changes cause no notification: those on file
//! servers, through a memory map, and of the targets of linked files. Such a file is read once it
//! stops changing. A file that cannot be read, except because of its content, is retried until it
//! can.
//!
//! Of Secrets and ConfigMaps only referenced ones are kept and sent, as from the Kubernetes API.
//! After each change the source asks which ones these are and reads their files again. Until then
//! nothing of the change takes effect, so an Ingress and its Secret that are written together are
//! served together.

mod folder;
mod manifest;
mod pieces;
mod reader;
mod stamp;
#[cfg(test)]
mod tests;
mod text;
mod unknown_fields;
mod walk;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, io, path, thread};

use tokio::sync::mpsc as channel;

use crate::input::Input;
use crate::options::Options;
use crate::store::{Batch, Needs, Progress, Prune, References};
use reader::FolderReader;
use watch::{Wake, Watch};

/// Interval of comparisons of a watched folder.
const COMPARE: Duration = Duration::from_secs(30);

/// A running source. Ends when dropped.
#[derive(Debug)]
pub struct FileSource {
    wakes: mpsc::Sender<Wake>,
    stop: Arc<AtomicBool>,
}

/// Why a folder cannot be a source.
#[derive(Debug, thiserror::Error)]
pub enum FileSourceError {
    /// The folder does not exist or cannot be read.
    #[error("cannot read the folder {}: {reason}; --manifests names a folder of .yaml, .yml and .json files", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The error of the system.
        reason: io::Error,
    },
    /// No thread can be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

impl FileSource {
    /// Starts to read and watch a folder.
    ///
    /// # Errors
    /// The folder cannot be read now. Later failures are problems in batches.
    pub fn start(
        folder: &Path,
        options: &Options,
        inputs: channel::Sender<Input>,
    ) -> Result<Self, FileSourceError> {
        Self::start_comparing(folder, options, inputs, COMPARE)
    }

    /// Like [`start`](Self::start), with an interval of comparisons.
    fn start_comparing(
        folder: &Path,
        options: &Options,
        inputs: channel::Sender<Input>,
        compare: Duration,
    ) -> Result<Self, FileSourceError> {
        check_folder(folder)?;
        // Notifications name absolute paths.
        let folder = &path::absolute(folder).map_err(unreadable(folder))?;
        let (wakes, woken) = mpsc::channel();
        let prune = Prune::with(options, Needs::names());
        let watch = Watch::new(wakes.clone());
        let mut reader = FolderReader::new(folder, prune, Some(watch), compare);
        let stop = reader.stop_flag();
        thread::Builder::new()
            .name("manifests".into())
            .spawn(move || reader.run(&woken, &inputs))
            .map_err(FileSourceError::Thread)?;
        Ok(Self { wakes, stop })
    }

    /// Reads a folder once, without watching it.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn read_once(folder: &Path, options: &Options) -> Result<Batch, FileSourceError> {
        check_folder(folder)?;
        let mut reader = FolderReader::new(folder, Prune::new(options), None, COMPARE);
        Ok(Batch { progress: Progress::Complete, ..reader.read_once() })
    }

    /// Returns a function that informs the source of changed references to Secrets and ConfigMaps.
    pub fn references(&self) -> impl Fn(References) + Send + use<> {
        let wakes = self.wakes.clone();
        move |references| {
            // Fails only if the source has ended.
            let _ = wakes.send(Wake::Referred(references));
        }
    }
}

impl Drop for FileSource {
    fn drop(&mut self) {
        // Set first, because the thread may be reading many files.
        self.stop.store(true, Ordering::Relaxed);
        // Fails only if the thread has ended.
        let _ = self.wakes.send(Wake::Stop);
    }
}

fn check_folder(folder: &Path) -> Result<(), FileSourceError> {
    fs::read_dir(folder).map(drop).map_err(unreadable(folder))
}

fn unreadable(folder: &Path) -> impl FnOnce(io::Error) -> FileSourceError {
    |reason| FileSourceError::Folder { folder: folder.to_owned(), reason }
}
