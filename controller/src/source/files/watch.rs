//! Notifications of changes in a folder.
//!
//! Every folder is watched on its own and before it is read, so that nothing can happen in between unseen,
//! and a symbolic link whose target changes is noticed by the identity of the target.
//!
//! The kernel watches folders, and the library paths: a folder that is renamed or made anew may have lost its watch although
//! its path and identity are those of before. So after each such change, and when notifications may be missing, everything is
//! watched anew.

use std::collections::HashMap;
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

/// What wakes the source up.
#[derive(Debug)]
pub(super) enum Wake {
    /// Something may be different.
    Changed(FileChange, Instant),
    /// Something else is referred to.
    Referred(References),
    /// The source is to end.
    Stop,
}

/// What may be different.
#[derive(Debug)]
pub(super) enum FileChange {
    /// This file.
    File(PathBuf),
    /// This is gone or was: a file, or a folder.
    Gone(PathBuf),
    /// Anything.
    Anything,
    /// Anything, and it may happen again unseen: notifications are missing.
    Missed,
}

/// Watches on folders.
pub(super) struct Watch {
    wakes: Sender<Wake>,
    watcher: Option<RecommendedWatcher>,
    folders: HashMap<PathBuf, Identity>,
    /// Why not every folder could be watched.
    pub(super) failure: Option<String>,
}

/// What a path leads to.
type Identity = (u64, u64);

impl Watch {
    /// Wakes go to `wakes`.
    pub(super) fn new(wakes: Sender<Wake>) -> Self {
        Self { wakes, watcher: None, folders: HashMap::new(), failure: None }
    }

    /// Begins a look at all folders anew.
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
                // Sending fails when the source has ended.
                let _ = wakes.send(Wake::Changed(change, now));
            }
        };
        match notify::recommended_watcher(handler) {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => self.failure = Some(error.to_string()),
        }
    }

    /// What is watched may not be what it should be: the next look begins from nothing.
    pub(super) fn renew(&mut self) {
        self.watcher = None;
        self.folders.clear();
    }

    /// Sees to it that this folder is watched.
    pub(super) fn folder(&mut self, path: &Path, metadata: &fs::Metadata) {
        let Some(watcher) = &mut self.watcher else { return };
        let identity = (metadata.dev(), metadata.ino());
        match self.folders.get(path) {
            Some(known) if *known == identity => return,
            // It leads elsewhere now. There may be no watch left on what it led to.
            Some(_) => drop(watcher.unwatch(path)),
            None => {}
        }
        match watcher.watch(path, RecursiveMode::NonRecursive) {
            Ok(()) => drop(self.folders.insert(path.to_owned(), identity)),
            Err(error) => {
                self.folders.remove(path);
                self.failure = Some(error.to_string());
            }
        }
    }

    /// Whether this folder is watched.
    pub(super) fn knows(&self, path: &Path) -> bool {
        self.folders.contains_key(path)
    }

    /// Ends watches on folders that are gone.
    pub(super) fn keep(&mut self, mut is_there: impl FnMut(&Path) -> bool) {
        let Some(watcher) = &mut self.watcher else { return };
        self.folders.retain(|path, _| {
            let keep = is_there(path);
            if !keep {
                // It has gone with the folder, or goes now.
                let _ = watcher.unwatch(path);
            }
            keep
        });
    }
}

/// The language of a manifest by its name; `None` for everything that is none.
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

/// What an event means. A file counts when it is closed after writing, not while it is written; one that
/// appears whole (a link, a rename) counts at once. That a file leaves does not count for what may be there now under its
/// name, which somebody may be writing: that has an event of its own.
pub(super) fn changes(event: notify::Event) -> Vec<FileChange> {
    if event.need_rescan() {
        return vec![FileChange::Missed];
    }
    let appears = matches!(event.kind, EventKind::Create(_));
    let relevant = match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Create(CreateKind::Folder) => return vec![FileChange::Anything],
        // Each of the two names has had an event already.
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
