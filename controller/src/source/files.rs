//! A folder of manifests as a source.
//!
//! A thread of its own learns from the kernel when a file is closed after writing, renamed or removed, reads
//! that file alone, and sends what is different in it. Nothing waits for a timer: what has piled up is taken
//! together. Where the kernel cannot say (no watches left, an overflow), the folder is looked through again,
//! and once a second for as long as that lasts; files whose stamp is as before are not read. It is looked through twice a
//! minute in any case, because some changes have no notification: those on file servers, through a memory map, of what a
//! linked file leads to. A file that cannot be read for another reason than its text is read again until it can.
//!
//! Of Secrets and ConfigMaps, only what something refers to is kept and given, as by the Kubernetes API. Which ones these
//! are is asked for after each change, and the files that have them are then read again; until then nothing of the
//! change takes effect, so that an Ingress and its Secret that are written together are served together.

mod folder;
mod manifest;
mod pieces;
mod reader;
mod stamp;
#[cfg(test)]
mod tests;
mod text;
mod walk;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, io, thread};

use tokio::sync::mpsc as channel;

use crate::input::Input;
use crate::options::Options;
use crate::store::{Batch, Needs, Progress, Prune, References};
use reader::FolderReader;
use watch::{Wake, Watch};

/// How often a folder is looked through that is watched.
const COMPARE: Duration = Duration::from_secs(30);

/// A running source. Ends when it is dropped.
#[derive(Debug)]
pub struct FileSource {
    wakes: mpsc::Sender<Wake>,
    stop: Arc<AtomicBool>,
}

/// Why a folder cannot be a source.
#[derive(Debug, thiserror::Error)]
pub enum FileSourceError {
    /// It is not there or cannot be read.
    #[error("cannot read the folder {}: {reason}; --manifests names a folder of .yaml, .yml and .json files", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// There is no thread to be had.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

impl FileSource {
    /// Starts to read and watch a folder.
    ///
    /// # Errors
    /// When the folder cannot be read now. Later failures are problems of the batches.
    pub fn start(
        folder: &Path,
        options: &Options,
        inputs: channel::Sender<Input>,
    ) -> Result<Self, FileSourceError> {
        Self::start_comparing(folder, options, inputs, COMPARE)
    }

    /// The same, with a look through the folder as often as this.
    fn start_comparing(
        folder: &Path,
        options: &Options,
        inputs: channel::Sender<Input>,
        compare: Duration,
    ) -> Result<Self, FileSourceError> {
        check_folder(folder)?;
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
    /// When the folder cannot be read.
    pub fn read_once(folder: &Path, options: &Options) -> Result<Batch, FileSourceError> {
        check_folder(folder)?;
        let mut reader = FolderReader::new(folder, Prune::new(options), None, COMPARE);
        Ok(Batch { progress: Progress::Complete, ..reader.read_once() })
    }

    /// Where the source gets to know which Secrets and ConfigMaps are referred to.
    pub fn references(&self) -> impl Fn(References) + Send + use<> {
        let wakes = self.wakes.clone();
        move |references| {
            // A source that has ended needs to know nothing more.
            let _ = wakes.send(Wake::Referred(references));
        }
    }
}

impl Drop for FileSource {
    fn drop(&mut self) {
        // It may be in the middle of many files.
        self.stop.store(true, Ordering::Relaxed);
        // Sending fails when the thread has ended already.
        let _ = self.wakes.send(Wake::Stop);
    }
}

fn check_folder(folder: &Path) -> Result<(), FileSourceError> {
    fs::read_dir(folder)
        .map(drop)
        .map_err(|reason| FileSourceError::Folder { folder: folder.to_owned(), reason })
}
