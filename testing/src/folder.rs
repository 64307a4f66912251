//! A folder of manifests that a test edits.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

/// A temporary folder; gone when neither a test nor a gateway has it any more.
#[derive(Clone)]
pub struct Folder {
    root: Arc<TempDir>,
}

impl Folder {
    /// An empty folder.
    pub fn empty() -> Self {
        Self { root: Arc::new(TempDir::new().unwrap()) }
    }

    /// A folder with the IngressClass `nginx` and these objects.
    pub fn with(objects: impl AsRef<str>) -> Self {
        let folder = Self::empty();
        folder.write("class.yaml", crate::manifest::class("nginx", "k8s.io/ingress-nginx"));
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
    pub fn write(&self, name: &str, text: impl AsRef<str>) {
        let draft = self.file(&format!(".{name}.draft"));
        fs::write(&draft, text.as_ref()).unwrap();
        fs::rename(&draft, self.file(name)).unwrap();
    }

    /// Takes a file away.
    pub fn remove(&self, name: &str) {
        fs::remove_file(self.file(name)).unwrap();
    }
}
