//! Reading of one file.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::SystemTime;

use super::manifest::Contents;
use super::stamp::Stamp;
use super::watch;

/// Maximum size of a file in bytes. Larger files are most likely not manifests.
const MAX_FILE: u64 = 256 << 20;

/// Returns whether the error means that the file does not exist. Other errors may be temporary and
/// remove no objects.
pub(super) fn is_absence(reason: &io::Error) -> bool {
    matches!(reason.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns whether the error is in the content, so that only an edit can fix it.
pub(super) fn is_of_text(reason: &io::Error) -> bool {
    matches!(reason.kind(), io::ErrorKind::InvalidData | io::ErrorKind::FileTooLarge)
}

/// Returns what to do about an error.
pub(super) fn remedy(reason: &io::Error) -> &'static str {
    match reason.kind() {
        io::ErrorKind::PermissionDenied => "give the gateway's user the permission to read it",
        io::ErrorKind::FileTooLarge => "cut it into several files",
        io::ErrorKind::InvalidData => "write it as text in UTF-8",
        _ => "correct this; it is read again as soon as it can be, without a restart",
    }
}

impl Contents {
    /// Reads a file. Returns `None` if it does not exist. The stamp is taken before the content, so
    /// that the next comparison detects a change in between.
    pub(super) fn read(root: &Path, name: &Path) -> Option<(Stamp, io::Result<Self>)> {
        let path = root.join(name);
        let language = watch::language(&path)?;
        let metadata = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => metadata,
            Ok(_) => return None,
            Err(reason) if is_absence(&reason) => return None,
            Err(reason) => return Some((Stamp::default(), Err(reason))),
        };
        let stamp = Stamp::of(&metadata, SystemTime::now());
        match read_text(&path) {
            Ok(text) => Some((stamp, Ok(Self { text, language }))),
            Err(reason) if is_absence(&reason) => None,
            Err(reason) => Some((stamp, Err(reason))),
        }
    }
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    // Some files are larger than their metadata states, and some are endless.
    File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        let reason = format!("it has more than {} MiB", MAX_FILE >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(text)
}
