//! A folder of manifests that is edited like operators and controllers do: a new file is renamed
//! over the old one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use tempfile::TempDir;

use crate::manifest::nginx_class;

/// A temporary folder. It is removed when neither a test nor a gateway refers to it.
#[derive(Clone, Debug)]
pub struct Folder {
    root: Arc<TempDir>,
}

impl Folder {
    /// Creates an empty folder.
    pub fn empty() -> Self {
        Self { root: Arc::new(TempDir::new().unwrap()) }
    }

    /// Creates an empty folder in memory, if the machine has such a file system.
    ///
    /// # Errors
    /// The file system reports an error.
    pub fn in_memory() -> io::Result<Self> {
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Ok(Self { root: Arc::new(root?) })
    }

    /// Creates a folder with the IngressClass `nginx` and these objects.
    pub fn with(objects: impl AsRef<str>) -> Self {
        let folder = Self::empty();
        folder.write("class.yaml", nginx_class());
        folder.write("objects.yaml", objects);
        folder
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Returns the path of a file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Replaces a file atomically: writes it under another name, then renames it.
    ///
    /// # Panics
    /// The file system reports an error.
    #[track_caller]
    pub fn write(&self, name: &str, text: impl AsRef<str>) {
        self.try_write(name, text).unwrap();
    }

    /// Same as [`write`](Self::write), but returns the error.
    ///
    /// # Errors
    /// The file system reports an error.
    pub fn try_write(&self, name: &str, text: impl AsRef<str>) -> io::Result<()> {
        let (draft, file) = (self.file(&format!(".{name}.draft")), self.file(name));
        fs::write(&draft, text.as_ref()).and_then(|()| fs::rename(&draft, &file)).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot write {}: {error}", file.display()))
        })
    }

    /// Removes a file.
    pub fn remove(&self, name: &str) {
        fs::remove_file(self.file(name)).unwrap();
    }
}
