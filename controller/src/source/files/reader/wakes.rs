//! Wakes: notifications of changed files, and answers about references. Those that have accumulated
//! are processed together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use super::FolderReader;
use crate::source::files::walk::Occasion;
use crate::source::files::watch::{FileChange, Wake};

/// The combined effect of the wakes received so far.
pub(super) struct Wakes {
    /// When the first one was received.
    pub(super) received_at: Instant,
    /// Whether objects of files have changed.
    pub(super) has_changes: bool,
    /// Whether the references are now known.
    pub(super) is_answered: bool,
}

impl FolderReader {
    /// Processes one wake and all that have accumulated behind it. Returns `None` to end.
    pub(super) fn take(&mut self, first: Option<Wake>, woken: &mpsc::Receiver<Wake>) -> Option<Wakes> {
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
        let mut names: BTreeSet<Arc<Path>> = self.retries.due(now).collect();
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
}
