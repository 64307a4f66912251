//! Stores the last configuration in a file, so that a gateway that starts while the API is
//! unavailable can serve it.
//!
//! A separate thread receives every delta and writes the whole state a few seconds later, so that
//! the control plane never waits for a disk. The file contains private keys of certificates: only
//! its owner can read it at any time.
//!
//! It contains the version that wrote it, its cluster, and the time at which the API last confirmed
//! it, for which it is rewritten from time to time. It is used only if all of these match and it is
//! decoded completely.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sluice_config::{Delta, Generation, Snapshot};

use crate::source::kube::Cluster;
use crate::strict_decode;

/// Minimum interval between two writes.
const INTERVAL: Duration = Duration::from_secs(5);
/// Interval after which an unchanged state is rewritten, to update the time at which it was known
/// to be current.
const REFRESH: Duration = Duration::from_secs(3600);
/// Allowed clock difference between machines.
const SKEW: Duration = Duration::from_secs(300);
/// Format version, incremented when files of earlier versions become unreadable.
const FORMAT: u32 = 8;
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Writes the configuration to a file as it changes. When dropped, it writes a last time and ends.
#[derive(Debug)]
pub struct SnapshotWriter {
    deltas: Option<mpsc::Sender<Delta>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Settings of a [`SnapshotWriter`].
pub struct SnapshotSettings<C> {
    /// Path of the file.
    pub path: PathBuf,
    /// Cluster of the configuration.
    pub cluster: Cluster,
    /// Returns the time of the API's last response; `None` while an earlier configuration is
    /// served.
    pub known: C,
    /// Maximum age of a usable configuration; zero for any age.
    pub max_age: Duration,
}

/// Conditions for a usable configuration.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Cluster of the configuration.
    pub cluster: Cluster,
    /// Maximum age; zero for any age.
    pub max_age: Duration,
}

/// Errors of [`read`], with the way to fix them.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file does not exist.
    #[error("there is no file yet; it is written when the configuration has been read once")]
    None,
    /// The file cannot be read.
    #[error("it cannot be read: {0}; make it readable for the user that Sluice runs as")]
    Unreadable(#[from] io::Error),
    /// The contents are damaged.
    #[error("it is damaged ({0}); remove it; it is rewritten when the API responds")]
    Damaged(String),
    /// The file has a field or value that this version does not know.
    #[error(
        "it was written by {}, and this version ({VERSION}) cannot decode all of it ({what}); it is \
         rewritten when the API responds; to use it before that, start the version that wrote it",
        writer(.program)
    )]
    Undecodable {
        /// Version that wrote the file.
        program: String,
        /// The unknown part.
        what: String,
    },
    /// The file belongs to another cluster.
    #[error(
        "it belongs to another cluster ({theirs}; this one is {ours}); give each cluster its own file with \
         --snapshot-file, or remove the file if the cluster has a new address or authority"
    )]
    OtherCluster {
        /// Cluster of the file.
        theirs: Box<Cluster>,
        /// Cluster of this gateway.
        ours: Box<Cluster>,
    },
    /// The configuration is too old.
    #[error(
        "its configuration was last current at {at}, and --snapshot-max-age is {} s; raise the maximum age to use the \
         file",
        .max_age.as_secs()
    )]
    Old {
        /// Time at which it was last current.
        at: Timestamp,
        /// Maximum age.
        max_age: Duration,
    },
    /// The time in the file is in the future.
    #[error("it was written at {0}, which is still to come; set the clock of the machine")]
    Future(Timestamp),
}

/// Formats the version that wrote the file.
fn writer(program: &str) -> String {
    match program {
        "" => "an earlier version".to_owned(),
        program => format!("Sluice {program}"),
    }
}

/// The header of a file, readable in every format version.
#[derive(Deserialize)]
struct Head {
    format: u32,
    #[serde(default)]
    program: String,
}

/// The contents of a file. The state is stored as a delta, because keys of JSON objects must be
/// strings.
#[derive(Deserialize, Serialize)]
struct Contents {
    format: u32,
    /// Version that wrote the file, for messages.
    program: String,
    /// Time at which the state was last known to be current, in Unix seconds.
    known_at: i64,
    cluster: Cluster,
    delta: Delta,
}

/// Reads a file of a [`SnapshotWriter`]. Returns the state and the time at which it was last
/// current.
///
/// # Errors
/// See [`SnapshotError`].
pub fn read(path: &Path, wanted: &Wanted) -> Result<(Snapshot, Timestamp), SnapshotError> {
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => SnapshotError::None,
        _ => error.into(),
    })?;
    // The message must not quote the file, which contains private keys.
    let damaged = |error: serde_json::Error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        SnapshotError::Damaged(format!("{:?} at {place}", error.classify()))
    };
    let value: serde_json::Value = serde_json::from_reader(BufReader::new(file)).map_err(damaged)?;
    let Ok(Head { format, program }) = Head::deserialize(&value) else {
        return Err(SnapshotError::Damaged("it has no format".to_owned()));
    };
    let undecodable = |what| SnapshotError::Undecodable { program: program.clone(), what };
    if format != FORMAT {
        return Err(undecodable(format!("format {format} in place of {FORMAT}")));
    }
    let read: Contents = strict_decode::read(value).map_err(undecodable)?;
    if read.cluster != wanted.cluster {
        let (theirs, ours) = (read.cluster.into(), wanted.cluster.clone().into());
        return Err(SnapshotError::OtherCluster { theirs, ours });
    }
    let at = Timestamp::from_second(read.known_at)
        .map_err(|_| SnapshotError::Damaged("its time is none".to_owned()))?;
    if !wanted.max_age.is_zero() {
        let age = Timestamp::now().duration_since(at);
        if age.is_negative() && age.unsigned_abs() > SKEW {
            return Err(SnapshotError::Future(at));
        }
        if age.is_positive() && age.unsigned_abs() > wanted.max_age {
            return Err(SnapshotError::Old { at, max_age: wanted.max_age });
        }
    }
    if !read.delta.complete {
        return Err(SnapshotError::Damaged("it is not whole".to_owned()));
    }
    let mut snapshot = Snapshot::default();
    snapshot.apply(&read.delta);
    Ok((snapshot, at))
}

impl SnapshotWriter {
    /// Starts the writer, with an empty state. `token` is dropped if the thread ends before this
    /// value is dropped, which indicates a fault.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn start<C>(settings: SnapshotSettings<C>, token: impl Send + 'static) -> io::Result<Self>
    where
        C: Fn() -> Option<Timestamp> + Send + 'static,
    {
        let (deltas, received) = mpsc::channel();
        let thread = thread::Builder::new().name("snapshot".into()).spawn(move || {
            follow(&settings, &received);
            drop(token);
        })?;
        Ok(Self { deltas: Some(deltas), thread: Some(thread) })
    }

    /// Records a delta that is in force.
    pub fn applied(&self, delta: Delta) {
        if let Some(deltas) = &self.deltas {
            // After a panic of the thread, its token ends the program.
            let _ = deltas.send(delta);
        }
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        self.deltas = None;
        if let Some(thread) = self.thread.take() {
            // A panic was already printed.
            let _ = thread.join();
        }
    }
}

fn follow<C: Fn() -> Option<Timestamp>>(settings: &SnapshotSettings<C>, deltas: &mpsc::Receiver<Delta>) {
    let path = settings.path.display();
    // Several times within the maximum age.
    let refresh = match settings.max_age {
        Duration::ZERO => REFRESH,
        age => REFRESH.min(age / 4).max(INTERVAL),
    };
    let mut state = Snapshot::default();
    let mut stale = false;
    let mut earliest = Instant::now();
    let mut next = earliest;
    let mut written = None;
    let mut failed = false;
    loop {
        let received = match state.complete {
            true => deltas.recv_timeout(next.saturating_duration_since(Instant::now())),
            false => deltas.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let end = match received {
            Ok(delta) => {
                state.apply(&delta);
                if state.complete && !stale {
                    stale = true;
                    next = earliest;
                }
                continue;
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        // While an earlier configuration is served, its file keeps its time.
        let known = (settings.known)();
        if state.complete && (stale || known > written) && known.is_some() {
            let outcome = write(&settings.path, &settings.cluster, known.unwrap_or_default(), &state);
            match &outcome {
                Ok(()) if failed => tracing::info!(%path, "the snapshot is written again"),
                Err(error) if !failed => tracing::error!(
                    %path, %error, "the snapshot cannot be written; make the folder of --snapshot-file writable"
                ),
                _ => {}
            }
            failed = outcome.is_err();
            stale = failed;
            written = known;
        }
        if end {
            return;
        }
        let now = Instant::now();
        earliest = now + INTERVAL;
        next = if stale { earliest } else { now + refresh };
    }
}

/// Writes to a temporary file beside the target, then renames it.
fn write(path: &Path, cluster: &Cluster, known_at: Timestamp, snapshot: &Snapshot) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = path.with_file_name(name);
    // A leftover file may have other permissions.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let mut output = BufWriter::new(file);
    let contents = Contents {
        format: FORMAT,
        program: VERSION.to_owned(),
        known_at: known_at.as_second(),
        cluster: cluster.clone(),
        delta: snapshot.to_delta(Generation::default()),
    };
    serde_json::to_writer(&mut output, &contents)?;
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

    fn cluster(server: &str) -> Cluster {
        Cluster { server: server.into(), authority: None }
    }

    fn wanted() -> Wanted {
        Wanted { cluster: cluster("https://a"), max_age: Duration::from_secs(3600) }
    }

    fn writer(path: &Path, known: Option<Timestamp>) -> SnapshotWriter {
        let Wanted { cluster, max_age } = wanted();
        let settings = SnapshotSettings { path: path.to_owned(), cluster, known: move || known, max_age };
        SnapshotWriter::start(settings, ()).unwrap()
    }

    /// A file with a state that was known to be right at this time, then changed.
    fn file(at: Timestamp, change: impl FnOnce(&mut serde_json::Value)) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.json");
        writer(&path, Some(at)).applied(delta("a", true));
        let mut value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        change(&mut value);
        fs::write(&path, value.to_string()).unwrap();
        (folder, path)
    }

    #[test]
    fn the_state_is_written_when_it_is_complete_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.json");
        writer(&path, Some(Timestamp::now())).applied(delta("a", false));
        assert!(matches!(read(&path, &wanted()), Err(SnapshotError::None)), "incomplete");
        let now = Timestamp::now();
        let follows = writer(&path, Some(now));
        follows.applied(delta("a", false));
        follows.applied(delta("b", true));
        drop(follows);
        let (snapshot, at) = read(&path, &wanted()).unwrap();
        assert_eq!((snapshot.complete, snapshot.endpoint_sets.len()), (true, 2));
        assert!(at.duration_since(now).unsigned_abs() <= Duration::from_secs(1));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn an_earlier_configuration_in_use_keeps_its_time() {
        let (_folder, path) = file(Timestamp::now(), |_| ());
        let before = fs::read(&path).unwrap();
        writer(&path, None).applied(delta("b", true));
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_damaged_file_is_reported_without_its_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.json");
        for text in ["", "{\"format\":4,\"delta\":\"secret\"}", "{\"format\":4,", "[\"secret\"]"] {
            fs::write(&path, text).unwrap();
            let error = read(&path, &wanted()).unwrap_err();
            let damaged = matches!(error, SnapshotError::Damaged(_) | SnapshotError::Undecodable { .. });
            assert!(damaged && !error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_file_of_a_newer_version_is_refused_if_not_decodable() {
        let refused = |change: fn(&mut serde_json::Value)| {
            let (_folder, path) = file(Timestamp::now(), change);
            read(&path, &wanted()).unwrap_err().to_string()
        };
        let field = refused(|value| {
            value["program"] = "9.8.7".into();
            value["delta"]["settings"]["allow_nobody"] = true.into();
        });
        assert!(field.contains("Sluice 9.8.7") && field.contains("delta.settings.allow_nobody"), "{field}");
        let deep = refused(|value| value["delta"]["endpoint_sets"][0]["Put"][1]["weight"] = 3.into());
        assert!(deep.contains("delta.endpoint_sets.0.Put.1.weight"), "{deep}");
        assert!(refused(|value| value["format"] = 7.into()).contains("format 7 in place of 8"));
        let variant = refused(|value| {
            value["delta"]["endpoint_sets"][0] = serde_json::json!({"Patch": ["secret"]});
        });
        assert!(variant.contains("unknown") && !variant.contains("secret"), "{variant}");
    }

    #[test]
    fn a_file_without_a_version_is_of_an_earlier_version() {
        let (_folder, path) = file(Timestamp::now(), |value| {
            value.as_object_mut().unwrap().remove("program");
            value["format"] = 1.into();
        });
        let text = read(&path, &wanted()).unwrap_err().to_string();
        assert!(text.contains("written by an earlier version, and "), "{text}");
        assert!(text.contains("it is rewritten when the API responds"), "{text}");
    }

    #[test]
    fn a_foreign_or_old_file_is_refused_with_a_remedy() {
        let now = Timestamp::now();
        let ago = |seconds: i64| now - jiff::SignedDuration::from_secs(seconds);
        let outcome = |at, wanted: &Wanted| {
            let (_folder, path) = file(at, |_| ());
            read(&path, wanted).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(outcome(ago(3000), &wanted()), Ok(()));
        let old = outcome(ago(4000), &wanted()).unwrap_err();
        assert!(old.contains("--snapshot-max-age is 3600 s"), "{old}");
        assert_eq!(outcome(ago(4000), &Wanted { max_age: Duration::ZERO, ..wanted() }), Ok(()));
        assert_eq!(outcome(ago(-100), &wanted()), Ok(()), "clocks differ a little");
        assert!(outcome(ago(-4000), &wanted()).unwrap_err().contains("set the clock"));
        let other = Wanted { cluster: cluster("https://b"), ..wanted() };
        let other = outcome(now, &other).unwrap_err();
        assert!(other.contains("https://a") && other.contains("https://b"), "{other}");
    }
}
