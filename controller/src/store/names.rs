//! Shared strings that many objects contain: namespaces, classes, names of annotations and ports,
//! zones. Behind a lock, because several threads parse a folder.

use std::sync::{Arc, Mutex, PoisonError};

use crate::shared::Shared;

/// Interned strings.
#[derive(Debug, Default)]
pub(super) struct InternedNames(Mutex<Shared<str>>);

impl InternedNames {
    /// Returns the shared copy of `text`.
    pub(super) fn share(&self, text: &str) -> Arc<str> {
        // The set is consistent at all times, so a panic elsewhere does no harm.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(text).unwrap_or_else(|| known.keep(text.into()))
    }
}
