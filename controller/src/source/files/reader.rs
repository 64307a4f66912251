//! The thread that reads a folder and its changes, and sends them in batches.

mod comparison;
mod content;
mod missing;
mod retries;
mod wakes;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use sluice_config::Problem;
use tokio::sync::mpsc as channel;

use super::folder::Folder;
use super::walk::{Occasion, Unfinished};
use super::watch::{Wake, Watch};
use crate::input::Input;
use crate::store::{Batch, Event, Progress, Prune};
use retries::Retries;

/// The state of a folder at the last read, and the thread that updates it.
pub(super) struct FolderReader {
    root: PathBuf,
    /// Set to end the thread.
    stop: Arc<AtomicBool>,
    folder: Folder,
    watch: Option<Watch>,
    /// Problems of folders rather than files.
    trouble: Vec<Problem>,
    trouble_changed: bool,
    /// Interval of comparisons without a notification.
    compare: Duration,
    /// Time of the next comparison.
    look_at: Instant,
    /// Changed files that may still be being written.
    unfinished: BTreeMap<Arc<Path>, Unfinished>,
    /// Files that could not be read.
    retries: Retries,
    /// Folders that were left out and are not watched.
    left_out: BTreeSet<PathBuf>,
    /// When the first change was received whose references are not known yet.
    unsettled: Option<Instant>,
    /// Missing or empty files, with the time at which that becomes final.
    aside: BTreeMap<Arc<Path>, Instant>,
}

impl FolderReader {
    /// Creates a reader that compares the folder at the interval `compare`.
    pub(super) fn new(root: &Path, prune: Prune, watch: Option<Watch>, compare: Duration) -> Self {
        Self {
            root: root.to_owned(),
            stop: Arc::default(),
            folder: Folder::new(prune),
            watch,
            trouble: Vec::new(),
            trouble_changed: false,
            compare,
            look_at: Instant::now() + compare,
            unfinished: BTreeMap::new(),
            retries: Retries::default(),
            left_out: BTreeSet::new(),
            unsettled: None,
            aside: BTreeMap::new(),
        }
    }

    /// Returns the flag that ends the reader.
    pub(super) fn stop_flag(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    /// Reads everything once, without watching.
    pub(super) fn read_once(&mut self) -> Batch {
        let start = Instant::now();
        self.look_through(Occasion::Start);
        self.batch(start, start, true)
    }

    /// Reads, watches and sends until the end.
    pub(super) fn run(&mut self, woken: &mpsc::Receiver<Wake>, inputs: &channel::Sender<Input>) {
        let start = Instant::now();
        // The kernel also reports reads by this process, which would double their cost. The first
        // pass therefore runs without watches, and the second one finds changes made meanwhile.
        let watch = self.watch.take();
        self.look_through(Occasion::Start);
        self.watch = watch;
        self.look_through(Occasion::Start);
        let first = Batch { progress: Progress::AllButReferred, ..self.batch(start, start, true) };
        self.unsettled = Some(start);
        let mut batch = Some(first);
        loop {
            // After an interrupted pass the content is not a state of the folder and must not be
            // sent.
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            if let Some(batch) = batch.take()
                && inputs.blocking_send(Input::Batch(batch)).is_err()
            {
                return;
            }
            let first = match woken.recv_timeout(self.next_look().saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => None,
                Ok(wake) => Some(wake),
            };
            let begin = Instant::now();
            let Some(taken) = self.take(first, woken) else { return };
            let mut done = self.batch(taken.received_at, begin, false);
            if taken.has_changes {
                self.unsettled.get_or_insert(taken.received_at);
                done.progress = Progress::AllButReferred;
            } else if taken.is_answered {
                // The sender of the references waits for this batch, even if it is empty.
                done.received_at = self.unsettled.take().unwrap_or(taken.received_at);
                done.progress = Progress::Complete;
            }
            let news = !done.events.is_empty() || done.problems.is_some() || done.skipped.is_some();
            batch = (news || taken.is_answered).then_some(done);
        }
    }

    /// Returns the time of the next action without a wake.
    fn next_look(&self) -> Instant {
        self.aside.values().copied().chain(self.retries.times()).fold(self.look_at, Instant::min)
    }

    fn batch(&mut self, received_at: Instant, begin: Instant, initial: bool) -> Batch {
        let changes = self.folder.take_changes();
        let changed = std::mem::take(&mut self.trouble_changed);
        let problems = (initial || changes.problems || changed)
            .then(|| self.trouble.iter().cloned().chain(self.folder.problems()).collect());
        let events: Vec<Event> = changes.events;
        Batch {
            events,
            problems,
            skipped: (initial || changes.skipped).then(|| self.folder.skipped().clone()),
            progress: Progress::Reading,
            received_at,
            parsing: begin.elapsed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::comparison::POLL;
    use super::missing::ASIDE;
    use super::*;
    use crate::options::Options;
    use crate::source::files::watch::FileChange;

    #[test]
    fn an_emptied_file_that_is_being_written_was_read_when_its_time_was_over() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.yaml");
        let service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n";
        fs::write(&path, service).unwrap();
        let prune = Prune::new(&Options::default());
        let mut reader = FolderReader::new(folder.path(), prune, None, Duration::from_secs(3600));
        assert_eq!(reader.read_once().events.len(), 1);
        let name: Arc<Path> = Path::new("a.yaml").into();
        fs::write(&path, "").unwrap();
        assert!(!reader.read(&name) && reader.aside.contains_key(&name));
        fs::write(&path, "# half\n").unwrap();
        reader.give_up(false, Instant::now() + ASIDE);
        assert!(reader.aside.is_empty() && !reader.folder.has_events());
        assert!(reader.next_look() <= Instant::now() + POLL);
        reader.read(&name);
        assert!(reader.folder.has_events());
    }

    #[test]
    fn a_file_that_is_written_again_was_read_for_its_last_notification() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.yaml");
        let prune = Prune::new(&Options::default());
        let mut reader = FolderReader::new(folder.path(), prune, None, Duration::from_secs(3600));
        fs::write(&path, "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n").unwrap();
        let (wakes, woken) = mpsc::channel();
        let mut take = |changes: &[fn(PathBuf) -> FileChange]| {
            for change in changes {
                wakes.send(Wake::Changed(change(path.clone()), Instant::now())).unwrap();
            }
            reader.take(None, &woken).unwrap().has_changes
        };
        assert!(!take(&[FileChange::File, FileChange::Writing]));
        assert!(take(&[FileChange::Writing, FileChange::File]));
    }

    #[test]
    fn a_file_written_just_before_a_comparison_waited_for_a_whole_interval() {
        let folder = TempDir::new().unwrap();
        let prune = Prune::new(&Options::default());
        let interval = Duration::from_secs(3600);
        let mut reader = FolderReader::new(folder.path(), prune, None, interval);
        reader.look_through(Occasion::Interval);
        assert!(reader.next_look() > Instant::now() + POLL, "nothing is being written");
        fs::write(folder.path().join("a.yaml"), "apiVersion: v1\n").unwrap();
        reader.look_through(Occasion::Interval);
        assert!(reader.next_look() <= Instant::now() + POLL);
    }
}
