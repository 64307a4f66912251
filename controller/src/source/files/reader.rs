//! The thread that reads a folder and its changes.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use sluice_config::{Code, ObjectRef, Problem};
use tokio::sync::mpsc as channel;

use super::folder::Folder;
use super::manifest::{Contents, Parsed};
use super::stamp::Stamp;
use super::text::{is_absence, is_of_text, remedy};
use super::walk::{Completion, LeftOut, Look, Occasion, Unfinished, Walk};
use super::watch::{FileChange, Wake, Watch};
use crate::input::Input;
use crate::problem::{error, warning};
use crate::store::{Batch, Event, Progress, Prune};

/// Interval of comparisons of a folder that cannot be watched, or in which a file may still be
/// being written.
const POLL: Duration = Duration::from_secs(1);
/// Time until an unreadable file is read again. Doubles with each failure.
const RETRY: Duration = Duration::from_millis(100);
/// Maximum of that time.
const LONGEST_RETRY: Duration = Duration::from_secs(10);
/// Number of files that justify an additional thread.
const MANY: usize = 64;
/// Time that a removed or emptied file has to come back before its objects are removed. Editors
/// move the old file away before they write the new one, and shells empty it; no route may vanish
/// meanwhile. Longer in tests, whose machine may stall between the two steps.
const ASIDE: Duration = Duration::from_millis(if cfg!(test) { 4000 } else { 500 });

/// The combined effect of the wakes received so far.
struct Wakes {
    /// When the first one was received.
    received_at: Instant,
    /// Whether objects of files have changed.
    has_changes: bool,
    /// Whether the references are now known.
    is_answered: bool,
}

/// The content of a file, parsed or not.
enum Text {
    Raw(Contents),
    Parsed(Box<[Parsed]>),
}

/// When a file is read again, and after what wait.
struct Again {
    at: Instant,
    pause: Duration,
}

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
    again: BTreeMap<Arc<Path>, Again>,
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
            again: BTreeMap::new(),
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
        let again = self.again.values().map(|again| again.at);
        self.aside.values().copied().chain(again).fold(self.look_at, Instant::min)
    }

    /// Processes one wake and all that have accumulated behind it. Returns `None` to end.
    fn take(&mut self, first: Option<Wake>, woken: &mpsc::Receiver<Wake>) -> Option<Wakes> {
        let mut referred = BTreeSet::new();
        let mut is_answered = false;
        let mut files = BTreeSet::new();
        let mut gone = BTreeSet::new();
        let mut anything = false;
        let mut missed = false;
        let mut moved = false;
        let mut received_at = None;
        for wake in first.into_iter().chain(woken.try_iter()) {
            match wake {
                Wake::Stop => return None,
                Wake::Referred(references) => {
                    is_answered = true;
                    referred.extend(self.folder.refer(references));
                }
                Wake::Changed(change, at) => {
                    received_at.get_or_insert(at);
                    match change {
                        FileChange::File(path) => drop(files.insert(path)),
                        // It was completed, and is written again.
                        FileChange::Writing(path) => drop(files.remove(&path)),
                        FileChange::Gone(path) => {
                            anything |= self.left_out.contains(&path);
                            moved |= self.watch.as_ref().is_some_and(|watch| watch.is_watched(&path));
                            gone.insert(path);
                        }
                        FileChange::Anything => anything = true,
                        FileChange::Missed => missed = true,
                    }
                }
            }
        }
        let mut came = false;
        let now = Instant::now();
        let due = self.again.iter().filter(|(_, again)| again.at <= now).map(|(name, _)| name.clone());
        let mut names: BTreeSet<Arc<Path>> = due.collect();
        names.extend(self.names(&files));
        for name in names {
            came |= self.read(&name);
        }
        for name in self.names(&gone) {
            if !self.is_there(&name) {
                self.miss(&name);
            }
        }
        match &mut self.watch {
            Some(watch) if missed => watch.renew_all(),
            Some(watch) if moved => watch.renew(&gone),
            _ => {}
        }
        if anything || missed || moved {
            came |= self.look_through(Occasion::Change);
        } else if self.look_at <= now {
            came |= self.look_through(Occasion::Interval);
        }
        let now = Instant::now();
        self.give_up(came, now);
        let has_changes = self.folder.has_events();
        for name in referred {
            self.complete(&name);
        }
        Some(Wakes { received_at: received_at.unwrap_or(now), has_changes, is_answered })
    }

    /// Returns the names of these files within the folder.
    fn names(&self, paths: &BTreeSet<PathBuf>) -> Vec<Arc<Path>> {
        paths.iter().filter_map(|path| path.strip_prefix(&self.root).ok()).map(Arc::from).collect()
    }

    fn is_there(&self, name: &Path) -> bool {
        !fs::metadata(self.root.join(name)).is_err_and(|reason| is_absence(&reason))
    }

    /// Removes the objects of files that did not come back in time, or earlier if another file
    /// `came`, which may be the missing one under a new name.
    fn give_up(&mut self, came: bool, now: Instant) {
        let mut aside = std::mem::take(&mut self.aside);
        aside.retain(|name, deadline| {
            let over = *deadline <= now || came && !self.is_there(name);
            if over {
                match Contents::read(&self.root, name) {
                    // It is being written, or its notification waits.
                    Some((_, Ok(contents))) if !contents.text.is_empty() => self.look_soon(),
                    Some((stamp, contents)) => self.take_in(name, stamp, contents.map(Text::Raw)),
                    None => self.folder.remove(name),
                }
            }
            !over
        });
        self.aside = aside;
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

    /// Reads one file, whatever its stamp. Returns false if it does not exist.
    fn read(&mut self, name: &Arc<Path>) -> bool {
        let contents = Contents::read(&self.root, name);
        self.put(name, contents.map(|(stamp, contents)| (stamp, contents.map(Text::Raw))))
    }

    /// Reads the fields of a file that were not needed before. One that has changed since its last
    /// read may still be being written, and is left to its notification.
    fn complete(&mut self, name: &Arc<Path>) {
        let known = self.folder.stamp(name);
        match Contents::read(&self.root, name) {
            Some((stamp, Ok(_))) if known.is_some_and(|known| !stamp.looks_like(&known)) => self.look_soon(),
            contents => {
                self.put(name, contents.map(|(stamp, contents)| (stamp, contents.map(Text::Raw))));
            }
        }
    }

    /// Compares all files soon, in case that a change has no notification.
    fn look_soon(&mut self) {
        self.look_at = self.look_at.min(Instant::now() + POLL);
    }

    /// Reads files, on all processors if there are many: parsing dominates the time of the start.
    /// Returns whether any exists.
    fn read_all(&mut self, names: Vec<Arc<Path>>) -> bool {
        let mut came = false;
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(names.len() / MANY);
        if threads < 2 {
            for name in &names {
                if self.stop.load(Ordering::Relaxed) {
                    break;
                }
                came |= self.read(name);
            }
            return came;
        }
        let (root, folder, stop) = (&self.root, &self.folder, &self.stop);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed))
                && !stop.load(Ordering::Relaxed)
            {
                let contents = Contents::read(root, name).map(|(stamp, contents)| {
                    let parse = |contents: Contents| match folder.stamp(name) {
                        None => Text::Parsed(folder.parse(&contents)),
                        Some(_) => Text::Raw(contents),
                    };
                    (stamp, contents.map(parse))
                });
                done.push((name, contents));
            }
            done
        };
        let done: Vec<_> = thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut done = work();
            for other in others {
                // A panicked thread has left files unread, which must not go unnoticed.
                done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            done
        });
        for (name, contents) in done {
            came |= self.put(name, contents);
        }
        came
    }

    /// Stores the content found under a name. Returns false if there is no file, or an empty one
    /// that had objects, which is probably being written.
    fn put(&mut self, name: &Arc<Path>, found: Option<(Stamp, io::Result<Text>)>) -> bool {
        let is_empty = |found: &io::Result<Text>| match found {
            Ok(Text::Raw(contents)) => contents.text.is_empty() && self.folder.has_objects_of(name),
            _ => false,
        };
        match found.filter(|(_, found)| !is_empty(found)) {
            Some((stamp, found)) => {
                self.aside.remove(name);
                self.take_in(name, stamp, found);
                true
            }
            None => {
                self.again.remove(name);
                self.miss(name);
                false
            }
        }
    }

    /// Stores the content of a file, or the error in reading it.
    fn take_in(&mut self, name: &Arc<Path>, stamp: Stamp, found: io::Result<Text>) {
        let again = self.again.remove(name);
        if found.as_ref().is_err_and(|reason| !is_of_text(reason)) {
            let pause = again.map_or(RETRY, |again| (again.pause * 2).min(LONGEST_RETRY));
            self.again.insert(name.clone(), Again { at: Instant::now() + pause, pause });
        }
        match found {
            Ok(Text::Raw(contents)) => self.folder.put(name, stamp, &contents),
            Ok(Text::Parsed(pieces)) => self.folder.put_pieces(name, stamp, pieces),
            Err(reason) => self.folder.unreadable(name, stamp, &reason),
        }
    }

    /// Records that a file is missing or empty.
    fn miss(&mut self, name: &Arc<Path>) {
        if self.folder.stamp(name).is_some() {
            self.aside.entry(name.clone()).or_insert_with(|| Instant::now() + ASIDE);
        }
    }

    /// Compares all files and reads those with another stamp that are complete. Returns whether any
    /// was read.
    fn look_through(&mut self, occasion: Occasion) -> bool {
        if let Some(watch) = &mut self.watch {
            watch.begin();
        }
        let unfinished = std::mem::take(&mut self.unfinished);
        let completion = Completion { occasion, unfinished: &unfinished, patience: self.compare };
        let mut look = Walk::new(&self.root, &self.folder, self.watch.as_mut(), &self.stop, completion).run();
        let came = self.read_all(std::mem::take(&mut look.stale));
        self.watch_link();
        if look.root_failed.is_none() && !look.incomplete {
            // Objects in a folder that has grown too large are kept, like those in an unreadable
            // one.
            let large = look.left_out.iter().filter(|(_, reason)| *reason == LeftOut::Large);
            let failed = look.failed.iter().map(|(folder, _)| folder);
            let unseen: Vec<&PathBuf> = large.map(|(folder, _)| folder).chain(failed).collect();
            let hidden = |name: &Path| unseen.iter().any(|folder| name.starts_with(folder));
            let names = self.folder.names();
            let gone: Vec<Arc<Path>> =
                names.filter(|name| !look.files.contains(*name) && !hidden(name)).cloned().collect();
            for name in gone {
                self.miss(&name);
            }
            if let Some(watch) = &mut self.watch {
                let root = &self.root;
                watch.keep(|path| look.folders.contains(path) || !path.starts_with(root));
            }
        }
        if let Some(watch) = &mut self.watch {
            watch.end();
        }
        // Without a notification, only a comparison detects the end of these problems.
        let soon = look.unfinished.values().any(|file| file.patience < self.compare)
            || look.root_failed.is_some()
            || !look.failed.is_empty()
            || self.watch.as_ref().is_some_and(|watch| watch.failure.is_some());
        self.unfinished = std::mem::take(&mut look.unfinished);
        self.look_at = Instant::now() + if soon { POLL } else { self.compare };
        self.left_out = look.left_out.iter().map(|(name, _)| self.root.join(name)).collect();
        let trouble = self.problems_of(look);
        self.trouble_changed |= trouble != self.trouble;
        self.trouble = trouble;
        came
    }

    /// If the folder itself is a link, a new target is noticed in the folder that contains the
    /// link.
    fn watch_link(&mut self) {
        let is_link = fs::symlink_metadata(&self.root).is_ok_and(|metadata| metadata.is_symlink());
        if let (true, Some(watch), Some(parent)) = (is_link, &mut self.watch, self.root.parent())
            && let Ok(metadata) = fs::metadata(parent)
        {
            watch.folder(parent, &metadata);
        }
    }

    fn problems_of(&self, look: Look) -> Vec<Problem> {
        let mut trouble = Vec::new();
        let folder = |name: &Path| ObjectRef::new("File", "", &self.root.join(name).to_string_lossy());
        if let Some(reason) = look.root_failed {
            let message = format!("the folder cannot be read: {reason}{}", self.folder.kept(Path::new("")));
            trouble.push(error(
                Code::FileUnreadable,
                &folder(Path::new("")),
                "",
                message,
                "put the folder back, or correct --manifests",
            ));
        }
        for (name, reason) in look.failed {
            let message = format!("the folder cannot be read: {reason}{}", self.folder.kept(&name));
            trouble.push(error(Code::FileUnreadable, &folder(&name), "", message, remedy(&reason)));
        }
        for (name, reason) in look.left_out {
            let (message, remedy) = reason.explain();
            trouble.push(error(Code::FileIgnored, &folder(&name), "", message, remedy));
        }
        if let Some(reason) = self.watch.as_ref().and_then(|watch| watch.failure.as_ref()) {
            trouble.push(warning(
                Code::FolderNotWatched,
                &folder(Path::new("")),
                "",
                format!("the folder cannot be watched: {reason}; it is looked through once a second"),
                "raise fs.inotify.max_user_watches and fs.inotify.max_user_instances",
            ));
        }
        trouble
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::options::Options;

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
