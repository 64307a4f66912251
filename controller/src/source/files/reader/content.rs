//! Reads files, and stores what they contain.

use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use std::{io, thread};

use super::FolderReader;
use crate::source::files::manifest::{Contents, Parsed};
use crate::source::files::stamp::Stamp;
use crate::source::files::text::is_of_text;

/// Number of files that justify an additional thread.
const MANY: usize = 64;
/// The content of a file, parsed or not.
pub(super) enum Text {
    Raw(Contents),
    Parsed(Box<[Parsed]>),
}

impl FolderReader {
    /// Reads one file, whatever its stamp. Returns false if it does not exist.
    pub(super) fn read(&mut self, name: &Arc<Path>) -> bool {
        let contents = Contents::read(&self.root, name);
        self.put(name, contents.map(|(stamp, contents)| (stamp, contents.map(Text::Raw))))
    }

    /// Reads the fields of a file that were not needed before. One that has changed since its last
    /// read may still be being written, and is left to its notification.
    pub(super) fn complete(&mut self, name: &Arc<Path>) {
        let known = self.folder.stamp(name);
        match Contents::read(&self.root, name) {
            Some((stamp, Ok(_))) if known.is_some_and(|known| !stamp.looks_like(&known)) => self.look_soon(),
            contents => {
                self.put(name, contents.map(|(stamp, contents)| (stamp, contents.map(Text::Raw))));
            }
        }
    }

    /// Reads files, on all processors if there are many: parsing dominates the time of the start.
    /// Returns whether any exists.
    pub(super) fn read_all(&mut self, names: Vec<Arc<Path>>) -> bool {
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
                self.retries.forget(name);
                self.miss(name);
                false
            }
        }
    }

    /// Stores the content of a file, or the error in reading it.
    pub(super) fn take_in(&mut self, name: &Arc<Path>, stamp: Stamp, found: io::Result<Text>) {
        match found.as_ref().is_err_and(|reason| !is_of_text(reason)) {
            true => self.retries.failed(name, Instant::now()),
            false => self.retries.forget(name),
        }
        match found {
            Ok(Text::Raw(contents)) => self.folder.put(name, stamp, &contents),
            Ok(Text::Parsed(pieces)) => self.folder.put_pieces(name, stamp, pieces),
            Err(reason) => self.folder.unreadable(name, stamp, &reason),
        }
    }
}
