//! The thread that reads a folder, and reads again what is different in it.

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
use super::text::{is_absence, is_of_text};
use super::walk::{LeftOut, Look, Walk};
use super::watch::{FileChange, Wake, Watch};
use crate::input::Input;
use crate::problem::{error, warning};
use crate::store::{Batch, Event, Progress, Prune};

/// How often a folder is looked through that cannot be watched.
const POLL: Duration = Duration::from_secs(1);
/// A file that could not be read is read again so much later, twice as much after each further time.
const RETRY: Duration = Duration::from_millis(100);
/// No later than this.
const LONGEST_RETRY: Duration = Duration::from_secs(10);
/// Files that are worth a further thread.
const MANY: usize = 64;
/// How long a file that is gone or has become empty may take to come back before its objects are taken for gone as well.
/// Editors move the old file aside before they write the new one, shells empty it, and in between no route may vanish.
/// Tests write both on a machine that may stand still for a while in between.
const ASIDE: Duration = Duration::from_millis(if cfg!(test) { 4000 } else { 500 });

/// The outcome of the wakes received so far.
struct Wakes {
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

/// When a file is read again, and how long that was to wait for.
struct Again {
    at: Instant,
    pause: Duration,
}

/// What a folder held when it was last looked at, and the thread that keeps that true.
pub(super) struct FolderReader {
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
    /// Files that are not there or empty now, with the time at which that becomes final.
    aside: BTreeMap<Arc<Path>, Instant>,
}

impl FolderReader {
    /// Looks through the folder as often as `compare` where nothing asks for it.
    pub(super) fn new(root: &Path, prune: Prune, watch: Option<Watch>, compare: Duration) -> Self {
        Self {
            root: root.to_owned(),
            stop: Arc::default(),
            folder: Folder::new(prune),
            watch,
            trouble: Vec::new(),
            trouble_changed: false,
            polls: false,
            compare,
            look_at: Instant::now() + compare,
            again: BTreeMap::new(),
            left_out: BTreeSet::new(),
            unsettled: None,
            aside: BTreeMap::new(),
        }
    }

    /// Ends the reader when it is set.
    pub(super) fn stop_flag(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    /// Reads everything, without watching it.
    pub(super) fn read_once(&mut self) -> Batch {
        let start = Instant::now();
        self.look_through(false);
        self.batch(start, start, true)
    }

    /// Reads, watches and sends until it is to end.
    pub(super) fn run(&mut self, woken: &mpsc::Receiver<Wake>, inputs: &channel::Sender<Input>) {
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
    fn take(&mut self, first: Option<Wake>, woken: &mpsc::Receiver<Wake>) -> Option<Wakes> {
        let mut referred = BTreeSet::new();
        let mut is_answered = false;
        let mut files = BTreeSet::new();
        let mut gone = BTreeSet::new();
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
        if let (true, Some(watch)) = (missed, &mut self.watch) {
            watch.renew();
        }
        if anything || missed || self.look_at <= now {
            came |= self.look_through(!anything && !missed);
        }
        let now = Instant::now();
        self.give_up(came, now);
        let has_changes = self.folder.has_events();
        for name in referred {
            self.read(&name);
        }
        Some(Wakes { received_at: received_at.unwrap_or(now), has_changes, is_answered })
    }

    /// The names of these files in the folder.
    fn names(&self, paths: &BTreeSet<PathBuf>) -> Vec<Arc<Path>> {
        paths.iter().filter_map(|path| path.strip_prefix(&self.root).ok()).map(Arc::from).collect()
    }

    fn is_there(&self, name: &Path) -> bool {
        !fs::metadata(self.root.join(name)).is_err_and(|reason| is_absence(&reason))
    }

    /// Takes the objects of files for gone that did not come back in time, or where another file `came`: that one may be
    /// theirs under a new name.
    fn give_up(&mut self, came: bool, now: Instant) {
        let mut aside = std::mem::take(&mut self.aside);
        aside.retain(|name, deadline| {
            let over = *deadline <= now || came && !self.is_there(name);
            if over {
                match Contents::read(&self.root, name) {
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

    /// Reads one file, whatever its stamp. False when there is none.
    fn read(&mut self, name: &Arc<Path>) -> bool {
        let contents = Contents::read(&self.root, name);
        self.put(name, contents.map(|(stamp, contents)| (stamp, contents.map(Text::Raw))))
    }

    /// Reads files, on all processors where there are many: parsing is most of the time to a first answer.
    /// Whether there were any.
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
                // A thread that panicked has left files unread, which must not go unnoticed.
                done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            done
        });
        for (name, contents) in done {
            came |= self.put(name, contents);
        }
        came
    }

    /// Takes in what was found at a name. False when that is no file, or one without a text where objects were: somebody may
    /// be about to write it.
    fn put(&mut self, name: &Arc<Path>, found: Option<(u64, io::Result<Text>)>) -> bool {
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

    /// The file is this from now on.
    fn take_in(&mut self, name: &Arc<Path>, stamp: u64, found: io::Result<Text>) {
        let again = self.again.remove(name);
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

    /// A file is not there, or as good as that.
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
        let came = self.read_all(std::mem::take(&mut look.stale));
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
