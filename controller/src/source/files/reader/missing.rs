//! Missing and empty files, whose objects stay until the file had time to come back.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::FolderReader;
use super::content::Text;
use crate::source::files::manifest::Contents;
use crate::source::files::text::is_absence;

/// Time that a removed or emptied file has to come back before its objects are removed. Editors
/// move the old file away before they write the new one, and shells empty it; no route may vanish
/// meanwhile. Longer in tests, whose machine may stall between the two steps.
pub(super) const ASIDE: Duration = Duration::from_millis(if cfg!(test) { 4000 } else { 500 });

impl FolderReader {
    pub(super) fn is_there(&self, name: &Path) -> bool {
        !fs::metadata(self.root.join(name)).is_err_and(|reason| is_absence(&reason))
    }

    /// Removes the objects of files that did not come back in time, or earlier if another file
    /// `came`, which may be the missing one under a new name.
    pub(super) fn give_up(&mut self, came: bool, now: Instant) {
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

    /// Records that a file is missing or empty.
    pub(super) fn miss(&mut self, name: &Arc<Path>) {
        if self.folder.stamp(name).is_some() {
            self.aside.entry(name.clone()).or_insert_with(|| Instant::now() + ASIDE);
        }
    }
}
