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
mod stamp;
#[cfg(test)]
mod tests;
mod walk;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, thread};

use sluice_config::{Code, ObjectRef, Problem};
use tokio::sync::mpsc as channel;

use super::{Batch, Event, Progress, References};
use crate::input::Input;
use crate::options::Options;
use crate::problem::{error, warning};
use crate::store::{Needs, Prune};
use folder::Folder;
use manifest::{Contents, Parsed};
use stamp::{UNSETTLED, stamp};
use walk::{LeftOut, Look, Walk};
use watch::{FileChange, Wake, Watch};

/// How often a folder is looked through that cannot be watched.
const POLL: Duration = Duration::from_secs(1);
/// How often a folder is looked through that is watched.
const COMPARE: Duration = Duration::from_secs(30);
/// A file that could not be read is read again so much later, twice as much after each further time.
const RETRY: Duration = Duration::from_millis(100);
/// No later than this.
const LONGEST_RETRY: Duration = Duration::from_secs(10);
/// Files that are worth a further thread.
const MANY: usize = 64;
/// How long a file that is gone may take to come back before its objects are taken for gone as well. Editors
/// move the old file aside before they write the new one, and in between no route may vanish.
/// Tests write both on a machine that may stand still for a while in between.
const ASIDE: Duration = Duration::from_millis(if cfg!(test) { 4000 } else { 500 });
/// The largest file, in bytes. A larger one is most likely no manifest.
const MAX_FILE: u64 = 256 << 20;

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
        let mut reader = FolderReader { compare, ..FolderReader::new(folder, prune, Some(watch)) };
        let stop = reader.stop.clone();
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
        let mut reader = FolderReader::new(folder, Prune::new(options), None);
        let start = Instant::now();
        reader.look_through(false);
        Ok(Batch { progress: Progress::Complete, ..reader.batch(start, start, true) })
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

/// Whether this is how a file is not there. Anything else may be over soon, and takes no objects away.
fn is_absence(reason: &io::Error) -> bool {
    matches!(reason.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether it is the text that is wrong, and stays so until somebody changes it.
fn is_of_text(reason: &io::Error) -> bool {
    matches!(reason.kind(), io::ErrorKind::InvalidData | io::ErrorKind::FileTooLarge)
}

/// What wakes came to.
struct Taken {
    /// When the first was noticed.
    received_at: Instant,
    /// Whether files have other objects than before.
    has_changes: bool,
    /// Whether it is known now what is referred to.
    is_answered: bool,
}

/// A file that was read, and parsed already or not.
enum Text {
    Raw(Contents),
    Parsed(Box<[Parsed]>),
}

impl Contents {
    /// Reads a file; `None` when there is none of that name. The stamp is from before the text, so that a
    /// change in between is noticed by the next look.
    fn read(root: &Path, name: &Path) -> Option<(u64, io::Result<Self>)> {
        let path = root.join(name);
        let language = watch::language(&path)?;
        let metadata = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => metadata,
            Ok(_) => return None,
            Err(reason) if is_absence(&reason) => return None,
            Err(reason) => return Some((UNSETTLED, Err(reason))),
        };
        let stamp = stamp(&metadata, SystemTime::now());
        match read_text(&path) {
            Ok(text) => Some((stamp, Ok(Self { text, language }))),
            Err(reason) if is_absence(&reason) => None,
            Err(reason) => Some((stamp, Err(reason))),
        }
    }
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    // Some files are larger than their metadata says, and some are endless.
    File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        let reason = format!("it has more than {} MiB; cut it into several", MAX_FILE >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(text)
}

/// When a file is read again, and how long that was to wait for.
struct Again {
    at: Instant,
    pause: Duration,
}

struct FolderReader {
    root: PathBuf,
    /// Set when it is to end.
    stop: Arc<AtomicBool>,
    folder: Folder,
    watch: Option<Watch>,
    /// What is wrong with folders, in place of files.
    trouble: Vec<Problem>,
    trouble_changed: bool,
    /// Whether it takes another look to see that the trouble is over.
    polls: bool,
    /// How often everything is looked at where nothing asks for it.
    compare: Duration,
    /// When that is next.
    look_at: Instant,
    /// Files that could not be read.
    again: BTreeMap<Arc<Path>, Again>,
    /// Folders that were not looked at, and are not watched.
    left_out: BTreeSet<PathBuf>,
    /// When the first of the changes was noticed that wait until it is known what they refer to.
    unsettled: Option<Instant>,
    /// Files that are not there now, with the time at which that becomes final.
    aside: BTreeMap<Arc<Path>, Instant>,
}

impl FolderReader {
    fn new(root: &Path, prune: Prune, watch: Option<Watch>) -> Self {
        Self {
            root: root.to_owned(),
            stop: Arc::default(),
            folder: Folder::new(prune),
            watch,
            trouble: Vec::new(),
            trouble_changed: false,
            polls: false,
            compare: COMPARE,
            look_at: Instant::now() + COMPARE,
            again: BTreeMap::new(),
            left_out: BTreeSet::new(),
            unsettled: None,
            aside: BTreeMap::new(),
        }
    }

    fn run(&mut self, woken: &mpsc::Receiver<Wake>, inputs: &channel::Sender<Input>) {
        let start = Instant::now();
        // The kernel also reports our own reading, which costs as much as the reading: so the first look goes
        // without watches, and the second one finds whatever was changed since.
        let watch = self.watch.take();
        self.look_through(false);
        self.watch = watch;
        self.look_through(false);
        let first = Batch { progress: Progress::AllButReferred, ..self.batch(start, start, true) };
        self.unsettled = Some(start);
        let mut batch = Some(first);
        loop {
            // What was read in the middle of many files is not the state of the folder.
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
                // Who has told what is referred to waits for this, whether it brings anything or not.
                done.received_at = self.unsettled.take().unwrap_or(taken.received_at);
                done.progress = Progress::Complete;
            }
            let news = !done.events.is_empty() || done.problems.is_some() || done.skipped.is_some();
            batch = (news || taken.is_answered).then_some(done);
        }
    }

    /// When to look again without having been woken.
    fn next_look(&self) -> Instant {
        let again = self.again.values().map(|again| again.at);
        self.aside.values().copied().chain(again).fold(self.look_at, Instant::min)
    }

    /// Takes one wake and all that have piled up behind it; `None` ends.
    fn take(&mut self, first: Option<Wake>, woken: &mpsc::Receiver<Wake>) -> Option<Taken> {
        let mut referred = BTreeSet::new();
        let mut is_answered = false;
        let mut files = BTreeSet::new();
        let mut anything = false;
        let mut missed = false;
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
                        FileChange::Gone(path) => {
                            anything |= self.left_out.contains(&path);
                            missed |= self.watch.as_ref().is_some_and(|watch| watch.knows(&path));
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
        names.extend(files.iter().filter_map(|path| path.strip_prefix(&self.root).ok()).map(Arc::from));
        for name in names {
            came |= self.read(&name);
        }
        if let (true, Some(watch)) = (missed, &mut self.watch) {
            watch.renew();
        }
        if anything || missed || self.look_at <= now {
            came |= self.look_through(!anything && !missed);
        }
        let now = Instant::now();
        // A file that came while another is away may be that other under a new name.
        self.give_up(|deadline| came || deadline <= now);
        let has_changes = self.folder.has_events();
        for name in referred {
            self.read(&name);
        }
        Some(Taken { received_at: received_at.unwrap_or(now), has_changes, is_answered })
    }

    /// Takes the objects of files for gone that did not come back.
    fn give_up(&mut self, is_over: impl Fn(Instant) -> bool) {
        self.aside.retain(|name, deadline| {
            let over = is_over(*deadline);
            if over {
                self.folder.remove(name);
            }
            !over
        });
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

    /// Reads one file, whatever its stamp. False when there is none.
    fn read(&mut self, name: &Arc<Path>) -> bool {
        let contents = Contents::read(&self.root, name);
        let there = contents.is_some();
        self.put(name, contents.map(|(stamp, contents)| (stamp, contents.map(Text::Raw))));
        there
    }

    /// Reads files, on all processors where there are many: parsing is most of the time to a first answer.
    fn read_all(&mut self, names: Vec<Arc<Path>>) {
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(names.len() / MANY);
        if threads < 2 {
            for name in &names {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                self.read(name);
            }
            return;
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
                // A thread that panicked has left files unread, which must not go unnoticed.
                done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            done
        });
        for (name, contents) in done {
            self.put(name, contents);
        }
    }

    /// Takes in what was found at a name; nothing is a file that is gone.
    fn put(&mut self, name: &Arc<Path>, found: Option<(u64, io::Result<Text>)>) {
        let again = self.again.remove(name);
        let Some((stamp, found)) = found else { return self.miss(name) };
        self.aside.remove(name);
        if found.as_ref().is_err_and(|reason| !is_of_text(reason)) {
            let pause = again.map_or(RETRY, |again| (again.pause * 2).min(LONGEST_RETRY));
            self.again.insert(name.clone(), Again { at: Instant::now() + pause, pause });
        }
        match found {
            Ok(Text::Raw(contents)) => self.folder.put(name, stamp, &contents),
            Ok(Text::Parsed(pieces)) => self.folder.put_pieces(name, stamp, pieces),
            Err(reason) => self.folder.unreadable(name, stamp, &reason.to_string()),
        }
    }

    /// A file is not there.
    fn miss(&mut self, name: &Arc<Path>) {
        if self.folder.stamp(name).is_some() {
            self.aside.entry(name.clone()).or_insert_with(|| Instant::now() + ASIDE);
        }
    }

    /// Looks at every file, and reads those whose stamp is another, or with `settled` those that have it for a while. Whether
    /// there were any.
    fn look_through(&mut self, settled: bool) -> bool {
        if let Some(watch) = &mut self.watch {
            watch.begin();
        }
        let mut look = Walk::new(&self.root, &self.folder, self.watch.as_mut(), &self.stop, settled).run();
        let came = !look.stale.is_empty();
        self.read_all(std::mem::take(&mut look.stale));
        self.watch_link();
        if look.root_failed.is_none() && !look.incomplete {
            // What is in a folder that has grown too large stays as it is, like that of one that cannot be read.
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
        self.polls = look.root_failed.is_some()
            || !look.failed.is_empty()
            || self.watch.as_ref().is_some_and(|watch| watch.failure.is_some());
        self.look_at = Instant::now() + if self.polls { POLL } else { self.compare };
        self.left_out = look.left_out.iter().map(|(name, _)| self.root.join(name)).collect();
        let trouble = self.troubles(look);
        self.trouble_changed |= trouble != self.trouble;
        self.trouble = trouble;
        came
    }

    /// Where the folder itself is a link, a change of its target is seen in the folder that contains the link.
    fn watch_link(&mut self) {
        let is_link = fs::symlink_metadata(&self.root).is_ok_and(|metadata| metadata.is_symlink());
        if let (true, Some(watch), Some(parent)) = (is_link, &mut self.watch, self.root.parent())
            && let Ok(metadata) = fs::metadata(parent)
        {
            watch.folder(parent, &metadata);
        }
    }

    fn troubles(&self, look: Look) -> Vec<Problem> {
        let mut trouble = Vec::new();
        let folder = |name: &Path| ObjectRef::new("File", "", &self.root.join(name).to_string_lossy());
        if let Some(reason) = look.root_failed {
            let message = format!("the folder cannot be read: {reason}; last good objects stay in force");
            trouble.push(error(
                Code::FileUnreadable,
                &folder(Path::new("")),
                "",
                message,
                "put the folder back, or correct --manifests",
            ));
        }
        for (name, reason) in look.failed {
            let message = format!("the folder cannot be read: {reason}; last good objects stay in force");
            trouble.push(error(Code::FileUnreadable, &folder(&name), "", message, "make it readable"));
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
