//! Notifications of changes in a folder.
//!
//! Every folder is watched separately and before it is read, so that no change in between is
//! missed. A changed target of a symbolic link is detected by the identity of the target.
//!
//! The kernel watches folders but the library paths: a renamed or recreated folder may have lost
//! its watch although its path and identity are unchanged. After such changes, and when
//! notifications may be missing, all watches are recreated. The old ones stay until then, so that
//! other folders lose no notification.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::Instant;

use notify::event::{AccessKind, AccessMode, CreateKind, EventKind, ModifyKind, RenameMode};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::manifest::Language;
use crate::store::References;

/// A message to the source's thread.
#[derive(Debug)]
pub(super) enum Wake {
    /// Files may have changed.
    Changed(FileChange, Instant),
    /// The references have changed.
    Referred(References),
    /// The source must end.
    Stop,
}

/// What may have changed.
#[derive(Debug)]
pub(super) enum FileChange {
    /// This file.
    File(PathBuf),
    /// This file, which is being written: another change reports that it is complete.
    Writing(PathBuf),
    /// This file or folder was removed or moved.
    Gone(PathBuf),
    /// Anything.
    Anything,
    /// Anything, and further changes may go unnoticed: notifications are missing.
    Missed,
}

/// The watches on folders.
pub(super) struct Watch {
    wakes: Sender<Wake>,
    watcher: Option<RecommendedWatcher>,
    folders: HashMap<PathBuf, Identity>,
    /// The watches that are being replaced, and the folders of which they miss nothing.
    replaced: Option<RecommendedWatcher>,
    unbroken: HashMap<PathBuf, Identity>,
    /// Why some folder could not be watched.
    pub(super) failure: Option<String>,
}

/// Device and inode of a path's target.
type Identity = (u64, u64);

impl Watch {
    /// Creates watches that send to `wakes`.
    pub(super) fn new(wakes: Sender<Wake>) -> Self {
        let (folders, unbroken) = (HashMap::new(), HashMap::new());
        Self { wakes, watcher: None, folders, replaced: None, unbroken, failure: None }
    }

    /// Prepares for a traversal of all folders.
    pub(super) fn begin(&mut self) {
        self.failure = None;
        if self.watcher.is_some() {
            return;
        }
        let wakes = self.wakes.clone();
        let handler = move |event: notify::Result<notify::Event>| {
            let now = Instant::now();
            let changes = event.map_or_else(|_| vec![FileChange::Missed], changes);
            for change in changes {
                // Fails only if the source has ended.
                let _ = wakes.send(Wake::Changed(change, now));
            }
        };
        match notify::recommended_watcher(handler) {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => self.failure = Some(error.to_string()),
        }
    }

    /// Has the next traversal recreate all watches, because these folders were removed or moved.
    pub(super) fn renew(&mut self, gone: &BTreeSet<PathBuf>) {
        self.replaced = self.watcher.take();
        self.unbroken = std::mem::take(&mut self.folders);
        self.unbroken.retain(|path, _| !path.ancestors().any(|folder| gone.contains(folder)));
    }

    /// Has the next traversal recreate all watches, because notifications are missing.
    pub(super) fn renew_all(&mut self) {
        (self.watcher, self.replaced) = (None, None);
        self.folders.clear();
        self.unbroken.clear();
    }

    /// Ends a traversal.
    pub(super) fn end(&mut self) {
        self.replaced = None;
        self.unbroken.clear();
    }

    /// Ensures that this folder is watched. Returns whether it has been so since the last
    /// traversal: each file that was completed in it has had, or will have, a notification.
    pub(super) fn folder(&mut self, path: &Path, metadata: &fs::Metadata) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        let identity = (metadata.dev(), metadata.ino());
        match self.folders.get(path) {
            Some(known) if *known == identity => return true,
            // The path leads elsewhere now. The watch on its old target may already be gone.
            Some(_) => drop(watcher.unwatch(path)),
            None => {}
        }
        match watcher.watch(path, RecursiveMode::NonRecursive) {
            Ok(()) => {
                self.folders.insert(path.to_owned(), identity);
                self.unbroken.get(path) == Some(&identity)
            }
            Err(error) => {
                self.folders.remove(path);
                self.failure = Some(error.to_string());
                false
            }
        }
    }

    /// Returns whether this folder is watched.
    pub(super) fn is_watched(&self, path: &Path) -> bool {
        self.folders.contains_key(path)
    }

    /// Removes the watches on folders for which `is_there` is false.
    pub(super) fn keep(&mut self, mut is_there: impl FnMut(&Path) -> bool) {
        let Some(watcher) = &mut self.watcher else { return };
        self.folders.retain(|path, _| {
            let keep = is_there(path);
            if !keep {
                // The watch may already be gone with the folder.
                let _ = watcher.unwatch(path);
            }
            keep
        });
    }
}

/// Returns the format of a manifest by its name, or `None` for other files.
pub(super) fn language(path: &Path) -> Option<Language> {
    let name = path.file_name()?.to_string_lossy();
    if name.starts_with('.') || name.ends_with('~') {
        return None;
    }
    match path.extension().and_then(OsStr::to_str)? {
        "yaml" | "yml" => Some(Language::Yaml),
        "json" => Some(Language::Json),
        _ => None,
    }
}

/// Returns the changes that an event means. A file counts when it is closed after writing, not
/// while it is written; a file that appears complete (a link or rename) counts at once. Removal of
/// a name says nothing about a new file of that name, which may still be being written and has an
/// event of its own.
pub(super) fn changes(event: notify::Event) -> Vec<FileChange> {
    if event.need_rescan() {
        return vec![FileChange::Missed];
    }
    if let EventKind::Modify(ModifyKind::Data(_)) = event.kind {
        let manifests = event.paths.into_iter().filter(|path| language(path).is_some());
        return manifests.map(FileChange::Writing).collect();
    }
    let appears = matches!(event.kind, EventKind::Create(_));
    let relevant = match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Create(CreateKind::Folder) => return vec![FileChange::Anything],
        // Both names already had events of their own.
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => false,
        EventKind::Create(_) | EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) => true,
        _ => false,
    };
    if !relevant {
        return Vec::new();
    }
    let leaves =
        matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)));
    let of_path = |path: PathBuf| {
        let gone = leaves.then(|| FileChange::Gone(path.clone()));
        let left = |change: &FileChange| leaves && matches!(change, FileChange::File(_));
        gone.into_iter().chain(change(path, appears).filter(|change| !left(change)))
    };
    event.paths.into_iter().flat_map(of_path).collect()
}

fn change(path: PathBuf, appears: bool) -> Option<FileChange> {
    let metadata = fs::symlink_metadata(&path);
    let is_link = metadata.as_ref().is_ok_and(fs::Metadata::is_symlink);
    if language(&path).is_some() && !metadata.as_ref().is_ok_and(fs::Metadata::is_dir) {
        let whole = is_link || metadata.is_ok_and(|metadata| metadata.nlink() > 1);
        return (!appears || whole).then_some(FileChange::File(path));
    }
    match metadata {
        Ok(metadata) if metadata.is_dir() && !appears => Some(FileChange::Anything),
        // A link may lead to a folder.
        Ok(_) => is_link.then_some(FileChange::Anything),
        Err(_) => None,
    }
}
