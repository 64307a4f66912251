//! The output of containers: one file per run, with a timestamp before each line, because `kubectl
//! logs` can request timestamps and lines since a given time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;

/// The writing end of a run's log.
pub struct LogFile {
    file: Mutex<File>,
    finished: PathBuf,
}

/// The reading end of a run's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerRun {
    /// The file with the lines.
    pub file: PathBuf,
    finished: PathBuf,
}

impl LogFile {
    /// Creates a file for the run with this number.
    ///
    /// # Errors
    /// Returns an error if it cannot be created.
    pub fn create(pod_dir: &Path, container: &str, run: i32) -> io::Result<Arc<Self>> {
        let ContainerRun { file, finished } = paths(pod_dir, container, run);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(Arc::new(Self { file: Mutex::new(File::from_std(fs::File::create(file)?)), finished }))
    }
}

impl ContainerRun {
    /// Returns whether nothing more will be written.
    pub fn is_finished(&self) -> bool {
        self.finished.exists()
    }
}

/// Returns a container's latest run, or the one before it.
pub fn find(pod_dir: &Path, container: &str, previous: bool) -> Option<ContainerRun> {
    let entries = fs::read_dir(folder(pod_dir, container)).ok()?;
    let mut runs: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".log")?.parse().ok())
        .collect();
    runs.sort_unstable();
    if previous {
        runs.pop();
    }
    Some(paths(pod_dir, container, runs.pop()?))
}

/// Copies a container's output until it has closed both streams.
pub async fn copy(log: Arc<LogFile>, output: impl AsyncRead + Unpin, errors: impl AsyncRead + Unpin) {
    let (output, errors) = tokio::join!(lines(&log, output), lines(&log, errors));
    if let Err(error) = output.and(errors).and_then(|()| fs::write(&log.finished, "")) {
        // The log is removed with its Pod.
        tracing::debug!(%error, "a container's log");
    }
}

async fn lines(log: &LogFile, stream: impl AsyncRead + Unpin) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        if stream.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        let mut entry = format!("{:.9} ", Timestamp::now()).into_bytes();
        entry.extend_from_slice(&line);
        let mut file = log.file.lock().await;
        file.write_all(&entry).await?;
        file.flush().await?;
    }
}

fn folder(pod_dir: &Path, container: &str) -> PathBuf {
    pod_dir.join("logs").join(container)
}

fn paths(pod_dir: &Path, container: &str, run: i32) -> ContainerRun {
    let folder = folder(pod_dir, container);
    ContainerRun { file: folder.join(format!("{run}.log")), finished: folder.join(format!("{run}.finished")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_streams_end_up_in_the_newest_run() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        copy(LogFile::create(dir, "c", 9).unwrap(), &b"old\n"[..], &b""[..]).await;
        let log = LogFile::create(dir, "c", 10).unwrap();
        let run = find(dir, "c", false).unwrap();
        assert!(!run.is_finished());
        copy(log, &b"one\ntwo"[..], &b"three\n"[..]).await;
        assert!(run.is_finished());
        let text = fs::read_to_string(&run.file).unwrap();
        let mut lines: Vec<&str> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
        lines.sort_unstable();
        assert_eq!(lines, ["one", "three", "two"]);
        let time = text.split(' ').next().unwrap();
        assert!(time.parse::<Timestamp>().is_ok(), "{time}");
        let earlier = find(dir, "c", true).unwrap();
        assert!(fs::read_to_string(earlier.file).unwrap().ends_with(" old\n"));
        assert_eq!(find(dir, "other", false), None);
    }
}
