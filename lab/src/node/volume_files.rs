//! The files of a Secret, ConfigMap or projected volume, replaced atomically: the files are in a
//! folder to which the link `..data` points, and a new content is a new folder and one rename of
//! that link. A program that watches its certificate sees key and chain change at once, as on a
//! real node.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path};

use anyhow::{Result, bail};

/// The desired files by their path in the volume.
pub type Files = BTreeMap<String, File>;

/// One desired file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The bytes.
    pub content: Vec<u8>,
    /// The permissions.
    pub mode: u32,
}

/// Gives a folder exactly these files. `version` must differ from that of any earlier call for the
/// folder.
///
/// # Errors
/// Returns an error if a path leads out of the volume, or the folder is not writable.
pub fn write(folder: &Path, files: &Files, version: u64) -> Result<()> {
    let name = format!("..{version}");
    let data = folder.join(&name);
    fs::create_dir_all(&data)?;
    for (path, file) in files {
        let relative = Path::new(path);
        if relative.components().any(|part| !matches!(part, Component::Normal(_))) {
            bail!("{path:?} leads out of the volume");
        }
        let target = data.join(relative);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&target, &file.content)?;
        fs::set_permissions(&target, fs::Permissions::from_mode(file.mode))?;
    }
    let earlier = fs::read_link(folder.join("..data")).ok();
    let next = folder.join("..data.next");
    symlink(&name, &next)?;
    fs::rename(&next, folder.join("..data"))?;

    let wanted: Vec<&str> = files.keys().filter_map(|path| path.split('/').next()).collect();
    for entry in fs::read_dir(folder)?.flatten() {
        let known = entry.file_name();
        let stale = known.to_str().is_some_and(|known| !known.starts_with("..") && !wanted.contains(&known));
        if stale {
            fs::remove_file(entry.path())?;
        }
    }
    for top in wanted {
        let link = folder.join(top);
        if link.symlink_metadata().is_err() {
            symlink(Path::new("..data").join(top), link)?;
        }
    }
    if let Some(earlier) = earlier {
        fs::remove_dir_all(folder.join(earlier))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(entries: &[(&str, &str)]) -> Files {
        let file = |content: &str| File { content: content.into(), mode: 0o640 };
        entries.iter().map(|(path, content)| ((*path).to_owned(), file(content))).collect()
    }

    #[test]
    fn a_new_content_replaces_all_of_the_old() {
        let dir = tempfile::tempdir().unwrap();
        let read = |path: &str| fs::read_to_string(dir.path().join(path)).ok();
        write(dir.path(), &files(&[("tls.crt", "a"), ("sub/x", "1"), ("old", "o")]), 1).unwrap();
        assert_eq!(read("tls.crt").as_deref(), Some("a"));
        assert_eq!(read("sub/x").as_deref(), Some("1"));
        let mode = fs::metadata(dir.path().join("tls.crt")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        write(dir.path(), &files(&[("tls.crt", "b"), ("sub/y", "2")]), 2).unwrap();
        assert_eq!(read("tls.crt").as_deref(), Some("b"));
        assert_eq!(read("sub/y").as_deref(), Some("2"));
        assert_eq!((read("sub/x"), read("old")), (None, None));
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left.len(), 4, "{left:?}");
    }

    #[test]
    fn a_path_cannot_leave_the_volume() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["../x", "/x", "a/../../x"] {
            assert!(write(dir.path(), &files(&[(path, "")]), 1).is_err(), "{path}");
        }
    }
}
