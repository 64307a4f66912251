//! The traversal of a folder: its files and subfolders.
//!
//! Every real folder is visited once, whatever links lead to it: otherwise two links to their own
//! parent would create 2^32 folders. Links are followed last, so that a folder is known by its real
//! name if it has one. Each link has a limit of its own, so that one into a large tree elsewhere
//! costs little and does not affect the others. Every omission is a problem that names the path.
//!
//! A traversal reads no file that is being written: half of a file may open what the other half
//! protects. In a folder that is watched, a file is read when its notification says that it is
//! complete. Only changes without a notification are found here, and wait until nothing has changed
//! for a while.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use super::folder::Folder;
use super::stamp::{Stamp, changed_within};
use super::watch::{self, Watch};

/// A file changed within this time may be incomplete.
const BEING_WRITTEN: Duration = Duration::from_secs(1);
/// Maximum nesting of folders.
const MAX_DEPTH: usize = 32;
/// Maximum number of files and folders in total.
const MAX_ENTRIES: usize = 200_000;
/// Maximum number of files and folders behind one link. Manifests have far fewer, the root file
/// system has more.
const MAX_BEHIND_LINK: usize = 10_000;

/// The result of a traversal.
#[derive(Default)]
pub(super) struct Look {
    pub(super) files: BTreeSet<Arc<Path>>,
    /// Files that have changed since they were read.
    pub(super) stale: Vec<Arc<Path>>,
    /// Files that were left for later, because they may still be being written.
    pub(super) unfinished: BTreeMap<Arc<Path>, Unfinished>,
    pub(super) folders: BTreeSet<PathBuf>,
    pub(super) root_failed: Option<io::Error>,
    pub(super) failed: Vec<(PathBuf, io::Error)>,
    /// Paths that were left out, with the reason.
    pub(super) left_out: Vec<(PathBuf, LeftOut)>,
    /// Whether the traversal ended early, so that files not found may exist.
    pub(super) incomplete: bool,
}

/// A changed file that may still be being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unfinished {
    stamp: Stamp,
    /// The first comparison with this stamp.
    since: Instant,
    /// Time without a change after which it counts as complete.
    pub(super) patience: Duration,
}

/// Why files are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    /// The source starts: everything is read.
    Start,
    /// Something has changed.
    Change,
    /// Time has passed.
    Interval,
}

/// How a traversal decides which changed files are complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion<'a> {
    pub(super) occasion: Occasion,
    /// The files that the last traversal left for later.
    pub(super) unfinished: &'a BTreeMap<Arc<Path>, Unfinished>,
    /// Time without a change after which a file counts as complete although it will have a
    /// notification.
    pub(super) patience: Duration,
}

/// Why a folder was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeftOut {
    /// It is the same folder as this one.
    Again(PathBuf),
    /// There are too many entries behind the link.
    Large,
    /// It is nested too deeply.
    Deep,
    /// There are too many entries in total, starting with this folder.
    Full,
}

impl LeftOut {
    /// Returns what is wrong and how to fix it.
    pub(super) fn explain(&self) -> (String, &'static str) {
        match self {
            Self::Again(first) if first.as_os_str().is_empty() => (
                "leads to the folder of --manifests itself and is left out; each folder is read once"
                    .to_owned(),
                "remove the link",
            ),
            Self::Again(first) => (
                format!(
                    "leads to the same folder as {} and is left out; each folder is read once",
                    first.display()
                ),
                "remove one of the two",
            ),
            Self::Large => (
                format!(
                    "leads to a folder with more than {MAX_BEHIND_LINK} files and folders; nothing new is read of it"
                ),
                "remove the link, or let it lead to the manifests alone",
            ),
            Self::Deep => (
                format!("is deeper than {MAX_DEPTH} folders and is left out"),
                "move it up, or remove the links that lead into each other",
            ),
            Self::Full => (
                format!(
                    "there are more than {MAX_ENTRIES} files and folders in all; from here on nothing new is read"
                ),
                "keep manifests alone in the folder of --manifests, or more of them in one file",
            ),
        }
    }
}

/// A traversal in progress.
pub(super) struct Walk<'a> {
    root: &'a Path,
    folder: &'a Folder,
    watch: Option<&'a mut Watch>,
    stop: &'a AtomicBool,
    completion: Completion<'a>,
    /// Whether the path that is being visited leads through a link.
    is_linked: bool,
    /// Visited folders, by device and inode.
    seen: HashMap<(u64, u64), PathBuf>,
    links: VecDeque<(PathBuf, usize)>,
    entries: usize,
    look: Look,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        root: &'a Path,
        folder: &'a Folder,
        watch: Option<&'a mut Watch>,
        stop: &'a AtomicBool,
        completion: Completion<'a>,
    ) -> Self {
        let (seen, links, look) = (HashMap::new(), VecDeque::new(), Look::default());
        let is_linked = fs::symlink_metadata(root).is_ok_and(|metadata| metadata.is_symlink());
        Self { root, folder, watch, stop, completion, is_linked, seen, links, entries: 0, look }
    }

    /// Visits everything up to the limits.
    pub(super) fn run(mut self) -> Look {
        self.folder(Path::new(""), 0);
        while let Some((name, depth)) = self.links.pop_front() {
            self.is_linked = true;
            self.link(&name, depth);
        }
        self.look
    }

    fn folder(&mut self, name: &Path, depth: usize) {
        if self.is_over(name) {
            return;
        }
        if depth > MAX_DEPTH {
            return self.leave_out(name, LeftOut::Deep);
        }
        let path = self.root.join(name);
        let mut was_watched = false;
        let entries = fs::metadata(&path).and_then(|metadata| {
            let identity = identity(&metadata);
            if let Some(first) = self.seen.get(&identity) {
                return Ok(Err(LeftOut::Again(first.clone())));
            }
            self.seen.insert(identity, name.to_owned());
            if let Some(watch) = &mut self.watch {
                was_watched = watch.folder(&path, &metadata);
            }
            self.names(&path).map(Ok)
        });
        let entries = match entries {
            Ok(Ok(entries)) => entries,
            Ok(Err(reason)) => return self.leave_out(name, reason),
            Err(reason) if depth == 0 => {
                self.look.root_failed = Some(reason);
                return;
            }
            Err(reason) => {
                self.look.failed.push((name.to_owned(), reason));
                return;
            }
        };
        self.look.folders.insert(path);
        for entry in entries {
            if self.is_over(name) {
                return;
            }
            if is_hidden(&entry) {
                continue;
            }
            let name = name.join(&entry);
            let path = self.root.join(&name);
            let metadata = match fs::metadata(&path) {
                Ok(metadata) => metadata,
                // A dangling link counts as absent.
                Err(reason) if super::text::is_absence(&reason) => continue,
                Err(_) if watch::language(&path).is_some() => {
                    // Reading the file reports the error.
                    let name: Arc<Path> = name.into();
                    self.look.stale.push(name.clone());
                    self.look.files.insert(name);
                    continue;
                }
                Err(reason) => {
                    self.look.failed.push((name, reason));
                    continue;
                }
            };
            if metadata.is_dir() {
                match fs::symlink_metadata(&path) {
                    Ok(metadata) if metadata.is_symlink() => self.links.push_back((name, depth + 1)),
                    _ => self.folder(&name, depth + 1),
                }
            } else if watch::language(&path).is_some() {
                self.file(name.into(), &path, &metadata, was_watched);
            }
        }
    }

    /// Compares a file with its last read. `was_watched`: its folder has been watched since then.
    fn file(&mut self, name: Arc<Path>, path: &Path, metadata: &Metadata, was_watched: bool) {
        let stamp = Stamp::of(metadata, SystemTime::now());
        let known = self.folder.stamp(&name);
        if !known.is_some_and(|known| stamp.is_still(&known)) {
            match self.patience(known, stamp, path, metadata, was_watched) {
                None => self.look.stale.push(name.clone()),
                Some(patience) => self.wait(&name, stamp, patience),
            }
        }
        self.look.files.insert(name);
    }

    /// Returns the time that a changed file must remain unchanged; `None` if it is complete.
    fn patience(
        &self,
        known: Option<Stamp>,
        stamp: Stamp,
        path: &Path,
        metadata: &Metadata,
        was_watched: bool,
    ) -> Option<Duration> {
        if self.completion.occasion == Occasion::Start {
            return None;
        }
        let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
        if was_watched && !is_link {
            return Some(self.completion.patience);
        }
        if known.is_some_and(|known| stamp.is_same_file(&known)) {
            return Some(BEING_WRITTEN);
        }
        // What a new link leads to is complete.
        if (is_link || self.is_linked) && self.completion.occasion == Occasion::Change {
            return None;
        }
        changed_within(BEING_WRITTEN, metadata, SystemTime::now()).then_some(BEING_WRITTEN)
    }

    /// Leaves a changed file for later, unless it has been unchanged for long enough.
    fn wait(&mut self, name: &Arc<Path>, stamp: Stamp, patience: Duration) {
        let before = self.completion.unfinished.get(name).filter(|before| stamp.looks_like(&before.stamp));
        let unfinished = match before {
            Some(before) => Unfinished { patience: patience.min(before.patience), ..*before },
            None => Unfinished { stamp, since: Instant::now(), patience },
        };
        if unfinished.since.elapsed() >= unfinished.patience && before.is_some() {
            self.look.stale.push(name.clone());
        } else {
            self.look.unfinished.insert(name.clone(), unfinished);
        }
    }

    /// Follows a link to a folder.
    fn link(&mut self, name: &Path, depth: usize) {
        if self.is_over(name) {
            return;
        }
        if self.is_large(&self.root.join(name)) {
            return self.leave_out(name, LeftOut::Large);
        }
        self.folder(name, depth);
    }

    /// Returns whether there are too many entries behind a link. Counts without watching or
    /// reading, skips visited folders, and follows no further links, which are checked separately.
    /// The counted entries add to the total.
    fn is_large(&mut self, path: &Path) -> bool {
        let mut seen = BTreeSet::new();
        let mut left = MAX_BEHIND_LINK;
        let mut folders = vec![path.to_owned()];
        while let Some(path) = folders.pop() {
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let identity = identity(&metadata);
            if self.seen.contains_key(&identity) || !seen.insert(identity) {
                continue;
            }
            for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
                if self.stop.load(Ordering::Relaxed) {
                    return true;
                }
                let Some(rest) = left.checked_sub(1) else { return true };
                left = rest;
                self.entries += 1;
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder && !is_hidden(&entry.file_name()) {
                    folders.push(entry.path());
                }
            }
        }
        false
    }

    /// Returns the names in a folder in order, so that omissions do not depend on the file system.
    fn names(&mut self, path: &Path) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            self.entries += 1;
            if self.entries > MAX_ENTRIES || self.stop.load(Ordering::Relaxed) {
                break;
            }
            names.push(entry?.file_name());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Returns whether the traversal must end.
    fn is_over(&mut self, name: &Path) -> bool {
        if self.entries > MAX_ENTRIES && !self.look.incomplete {
            self.look.incomplete = true;
            self.leave_out(name, LeftOut::Full);
        }
        self.look.incomplete |= self.stop.load(Ordering::Relaxed);
        self.look.incomplete
    }

    fn leave_out(&mut self, name: &Path, reason: LeftOut) {
        self.look.left_out.push((name.to_owned(), reason));
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn is_hidden(name: &OsString) -> bool {
    name.as_bytes().starts_with(b".") || name.as_bytes().ends_with(b"~")
}
