//! The folder of the files: its names, its owner, and what makes it unusable.

use std::ffi::OsStr;
use std::fs::{self, DirEntry, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sluice_config::{Code, ObjectRef, Problem, Severity};

/// Beginning of the names of files. The rest is a number of 16 hexadecimal digits.
const PREFIX: &str = "sluice-cache-";
const DIGITS: usize = 16;
/// A file that a process locks while it uses the folder.
const LOCK: &str = "sluice-cache.lock";
/// A folder that file systems such as ext4 have at their root.
const LOST_AND_FOUND: &str = "lost+found";
/// Readable and writable by the owner.
pub(super) const MODE: u32 = 0o600;

/// A folder that this process uses alone.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Locked until it is closed.
    _lock: File,
}

/// What makes the folder unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FolderFault {
    folder: PathBuf,
    reason: String,
    remedy: &'static str,
}

impl Folder {
    /// Takes possession of a folder and removes the files of an earlier process.
    ///
    /// # Errors
    /// The folder does not exist, cannot be written, has other content, or belongs to another
    /// process.
    pub(super) fn open(path: &Path) -> Result<Self, FolderFault> {
        let fault = |error: &io::Error| FolderFault::of(path, "use", error);
        // Nothing is created or removed in a folder with other content.
        own_files(path)?;
        let lock =
            OpenOptions::new().write(true).create(true).truncate(false).mode(MODE).open(path.join(LOCK));
        let lock = lock.map_err(|error| fault(&error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(fault(&error)),
            Err(TryLockError::WouldBlock) => {
                return Err(FolderFault {
                    folder: path.into(),
                    reason: "another process stores responses in it".into(),
                    remedy: "give each process a folder of its own, and restart",
                });
            }
        }
        for file in own_files(path)? {
            fs::remove_file(file.path()).map_err(|error| fault(&error))?;
        }
        Ok(Self { path: path.into(), _lock: lock })
    }

    /// Returns the path of a file.
    pub(super) fn file(&self, id: u64) -> PathBuf {
        self.path.join(format!("{PREFIX}{id:0DIGITS$x}"))
    }
}

/// Returns the files of earlier processes in a folder.
///
/// # Errors
/// The folder cannot be read, or has other content.
fn own_files(folder: &Path) -> Result<Vec<DirEntry>, FolderFault> {
    let fault = |error: &io::Error| FolderFault::of(folder, "read", error);
    let mut own = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| fault(&error))? {
        let entry = entry.map_err(|error| fault(&error))?;
        let kind = entry.file_type().map_err(|error| fault(&error))?;
        let name = entry.file_name();
        let is_body = is_body(&name);
        if kind.is_file() && is_body {
            own.push(entry);
        } else if !(kind.is_file() && name == LOCK || kind.is_dir() && name == LOST_AND_FOUND) {
            return Err(FolderFault {
                folder: folder.into(),
                reason: format!("it has other content: {}", name.to_string_lossy()),
                remedy: "give --cache-path an empty folder, which Sluice empties at each start, and restart",
            });
        }
    }
    Ok(own)
}

fn is_body(name: &OsStr) -> bool {
    let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    number.is_some_and(|number| number.len() == DIGITS && number.bytes().all(is_digit))
}

impl FolderFault {
    /// Describes a failed operation. `operation` completes "Sluice cannot ... it".
    pub(super) fn of(folder: &Path, operation: &str, error: &io::Error) -> Self {
        let remedy = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "make space on its disk, or lower cache-file-size in the ConfigMap"
            }
            io::ErrorKind::NotFound => "create the folder for this process alone, and restart",
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "make the folder writable for the user of the gateway"
            }
            _ => "check the disk, or give --cache-path another folder",
        };
        Self { folder: folder.into(), reason: format!("Sluice cannot {operation} it: {error}"), remedy }
    }

    /// Returns the problem to report.
    pub(crate) fn problem(&self) -> Problem {
        Problem {
            object: ObjectRef::new("Folder", "", &self.folder.to_string_lossy()),
            field: "--cache-path".into(),
            uid: None,
            severity: Severity::Warning,
            code: Code::CacheFolderUnusable,
            message: format!("{}; responses are stored in memory only", self.reason),
            remedy: self.remedy.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_emptied_and_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::write(path.join("sluice-cache-00000000000000ff"), "old").unwrap();
        fs::create_dir(path.join(LOST_AND_FOUND)).unwrap();
        let first = Folder::open(path).unwrap();
        assert!(!first.file(0xff).exists());
        assert_eq!(Folder::open(path).unwrap_err().reason, "another process stores responses in it");
        drop(first);
        Folder::open(path).unwrap();
    }

    #[test]
    fn a_folder_with_other_content_is_left_as_it_is() {
        for name in
            ["photo.jpg", "sluice-cache-1", "sluice-cache-00000000000000FF", "sluice-cache-é00000000000000"]
        {
            let folder = tempfile::tempdir().unwrap();
            let own = folder.path().join("sluice-cache-0000000000000001");
            fs::write(&own, "own").unwrap();
            fs::write(folder.path().join(name), "other").unwrap();
            let problem = Folder::open(folder.path()).unwrap_err().problem();
            assert!(problem.message.contains(name), "{problem}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is created or removed");
        }
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sluice-cache-0000000000000001")).unwrap();
        assert!(Folder::open(folder.path()).is_err(), "a folder is no file");
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_a_problem_with_a_remedy() {
        let problem = Folder::open(Path::new("/nowhere/at/all")).unwrap_err().problem();
        assert_eq!(
            (problem.code, &*problem.object.name.name),
            (Code::CacheFolderUnusable, "/nowhere/at/all")
        );
        assert!(problem.remedy.contains("create the folder"), "{problem}");
        let full = FolderFault::of(Path::new("/x"), "write", &io::ErrorKind::StorageFull.into());
        assert!(full.problem().remedy.contains("cache-file-size"));
    }
}
