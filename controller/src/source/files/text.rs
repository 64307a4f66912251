//! The text of one file, as far as it can be had.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::SystemTime;

use super::manifest::Contents;
use super::stamp::{UNSETTLED, stamp};
use super::watch;

/// The largest file, in bytes. A larger one is most likely no manifest.
const MAX_FILE: u64 = 256 << 20;

/// Whether this is how a file is not there. Anything else may be over soon, and takes no objects away.
pub(super) fn is_absence(reason: &io::Error) -> bool {
    matches!(reason.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether it is the text that is wrong, and stays so until somebody changes it.
pub(super) fn is_of_text(reason: &io::Error) -> bool {
    matches!(reason.kind(), io::ErrorKind::InvalidData | io::ErrorKind::FileTooLarge)
}

impl Contents {
    /// Reads a file; `None` when there is none of that name. The stamp is from before the text, so that a
    /// change in between is noticed by the next look.
    pub(super) fn read(root: &Path, name: &Path) -> Option<(u64, io::Result<Self>)> {
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
