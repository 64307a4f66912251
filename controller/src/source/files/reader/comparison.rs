//! Comparisons of the whole folder with what was read.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_config::{Code, ObjectRef, Problem};

use super::FolderReader;
use crate::problem::{error, warning};
use crate::source::files::text::remedy;
use crate::source::files::walk::{Completion, LeftOut, Look, Occasion, Walk};

/// Interval of comparisons of a folder that cannot be watched, or in which a file may still be
/// being written.
pub(super) const POLL: Duration = Duration::from_secs(1);

impl FolderReader {
    /// Compares all files soon, in case that a change has no notification.
    pub(super) fn look_soon(&mut self) {
        self.look_at = self.look_at.min(Instant::now() + POLL);
    }

    /// Compares all files and reads those with another stamp that are complete. Returns whether any
    /// was read.
    pub(super) fn look_through(&mut self, occasion: Occasion) -> bool {
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
