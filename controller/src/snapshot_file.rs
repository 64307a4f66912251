//! The last configuration in a file, so that a gateway that starts while the API is away can serve it.
//!
//! A thread of its own follows every delta and writes the whole state a few seconds later, so that the control
//! plane never waits for a disk. The file holds the private keys of certificates: nobody but its owner can read
//! it, at any moment.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sluice_config::{Delta, Generation, Snapshot};

/// The least time between two writes.
const INTERVAL: Duration = Duration::from_secs(5);
/// Counts up when a state can no longer be read as one of another version.
const FORMAT: u32 = 1;

/// Follows the configuration and writes it. Ends, with a last write, when it is dropped.
#[derive(Debug)]
pub struct SnapshotWriter {
    deltas: Option<mpsc::Sender<Delta>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Why a file gives no configuration.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// There is none.
    #[error("there is no file yet")]
    None,
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// What it holds is no configuration of this version of Sluice.
    #[error("it holds no configuration that this version of Sluice can use ({0})")]
    Corrupt(String),
}

/// What is in the file: the state as the delta that leads to it, because keys of JSON's maps are texts alone.
#[derive(Deserialize, Serialize)]
struct Contents {
    format: u32,
    delta: Delta,
}

/// Reads a file that [`SnapshotWriter`] has written.
///
/// # Errors
/// See [`SnapshotError`].
pub fn read(path: &Path) -> Result<Snapshot, SnapshotError> {
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => SnapshotError::None,
        _ => error.into(),
    })?;
    let corrupt = |reason: String| SnapshotError::Corrupt(reason);
    // What is wrong is not repeated from the file: it holds keys.
    let read: Contents = serde_json::from_reader(BufReader::new(file)).map_err(|error| {
        corrupt(format!("{:?} at line {}, column {}", error.classify(), error.line(), error.column()))
    })?;
    if read.format != FORMAT || !read.delta.complete {
        return Err(corrupt(format!("format {}", read.format)));
    }
    let mut snapshot = Snapshot::default();
    snapshot.apply(&read.delta);
    Ok(snapshot)
}

impl SnapshotWriter {
    /// Starts to follow, with nothing known. `token` is dropped when the thread ends, which it should not before this
    /// is dropped.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(path: PathBuf, token: impl Send + 'static) -> io::Result<Self> {
        let (deltas, received) = mpsc::channel();
        let thread = thread::Builder::new().name("snapshot".into()).spawn(move || {
            follow(&path, &received);
            drop(token);
        })?;
        Ok(Self { deltas: Some(deltas), thread: Some(thread) })
    }

    /// This delta is in force.
    pub fn applied(&self, delta: Delta) {
        if let Some(deltas) = &self.deltas {
            // A thread that has panicked has said so, and its token ends the program.
            let _ = deltas.send(delta);
        }
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        self.deltas = None;
        if let Some(thread) = self.thread.take() {
            // A panic was printed and cannot be mended now.
            let _ = thread.join();
        }
    }
}

fn follow(path: &Path, deltas: &mpsc::Receiver<Delta>) {
    let mut state = Snapshot::default();
    let mut stale = false;
    let mut next = Instant::now();
    let mut failed = false;
    loop {
        let received = match stale {
            true => deltas.recv_timeout(next.saturating_duration_since(Instant::now())),
            false => deltas.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let end = match received {
            Ok(delta) => {
                state.apply(&delta);
                stale |= state.complete;
                continue;
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        if stale {
            let outcome = write(path, &state);
            let path = path.display();
            match &outcome {
                Ok(()) if failed => tracing::info!(%path, "the snapshot is written again"),
                Err(error) if !failed => tracing::error!(
                    %path, %error, "the snapshot cannot be written; make the folder of --snapshot-file writable"
                ),
                _ => {}
            }
            failed = outcome.is_err();
            stale = failed;
            next = Instant::now() + INTERVAL;
        }
        if end {
            return;
        }
    }
}

/// Writes beside the file and puts it in its place when it is whole.
fn write(path: &Path, snapshot: &Snapshot) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = path.with_file_name(name);
    // One that was left behind may have another mode.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let mut output = BufWriter::new(file);
    serde_json::to_writer(
        &mut output,
        &Contents { format: FORMAT, delta: snapshot.to_delta(Generation::default()) },
    )?;
    output.flush()?;
    output.get_ref().sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use sluice_config::{Change, EndpointSet, EndpointSetKey};

    use super::*;

    fn delta(service: &str, complete: bool) -> Delta {
        let key = EndpointSetKey { namespace: "n".into(), service: service.into(), port: "".into() };
        let set = Arc::new(EndpointSet { key: key.clone(), endpoints: Vec::new() });
        Delta { complete, endpoint_sets: vec![Change::Put(key, set)], ..Delta::default() }
    }

    #[test]
    fn the_state_is_written_when_it_is_complete_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.json");
        let writer = SnapshotWriter::start(path.clone(), ()).unwrap();
        writer.applied(delta("a", false));
        drop(writer);
        assert!(matches!(read(&path), Err(SnapshotError::None)), "incomplete");
        let writer = SnapshotWriter::start(path.clone(), ()).unwrap();
        writer.applied(delta("a", false));
        writer.applied(delta("b", true));
        drop(writer);
        let snapshot = read(&path).unwrap();
        assert_eq!((snapshot.complete, snapshot.endpoint_sets.len()), (true, 2));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_damaged_file_says_so_without_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.json");
        for text in ["", "{\"format\":1,\"delta\":\"secret\"}", "{\"format\":1,", "[\"secret\"]"] {
            fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err();
            assert!(matches!(error, SnapshotError::Corrupt(_)), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let written = Contents { format: 2, delta: delta("a", true) };
        fs::write(&path, serde_json::to_string(&written).unwrap()).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("format 2"));
    }
}
