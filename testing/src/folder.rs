//! A folder of manifests, edited as operators and controllers do it: a new file is renamed over the old.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use tempfile::TempDir;

use crate::manifest::nginx_class;

/// A temporary folder; gone when neither a test nor a gateway has it any more.
#[derive(Clone, Debug)]
pub struct Folder {
    root: Arc<TempDir>,
}

impl Folder {
    /// An empty folder.
    pub fn empty() -> Self {
        Self { root: Arc::new(TempDir::new().unwrap()) }
    }

    /// An empty folder in memory, where the machine has such a file system.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn in_memory() -> io::Result<Self> {
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Ok(Self { root: Arc::new(root?) })
    }

    /// A folder with the IngressClass `nginx` and these objects.
    pub fn with(objects: impl AsRef<str>) -> Self {
        let folder = Self::empty();
        folder.write("class.yaml", nginx_class());
        folder.write("objects.yaml", objects);
        folder
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Puts a file in place as an editor does: written under another name, then renamed.
    ///
    /// # Panics
    /// The file system refuses.
    #[track_caller]
    pub fn write(&self, name: &str, text: impl AsRef<str>) {
        self.try_write(name, text).unwrap();
    }

    /// The same; an error when the file system refuses.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn try_write(&self, name: &str, text: impl AsRef<str>) -> io::Result<()> {
        let (draft, file) = (self.file(&format!(".{name}.draft")), self.file(name));
        fs::write(&draft, text.as_ref()).and_then(|()| fs::rename(&draft, &file)).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot write {}: {error}", file.display()))
        })
    }

    /// Takes a file away.
    pub fn remove(&self, name: &str) {
        fs::remove_file(self.file(name)).unwrap();
    }
}
