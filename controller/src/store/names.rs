//! Texts that many objects hold: namespaces, classes, names of annotations and ports, zones. Behind a lock,
//! because a folder is parsed by several threads.

use std::sync::{Arc, Mutex, PoisonError};

use crate::shared::Shared;

/// Shared texts.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<Shared<str>>);

impl Names {
    /// The one copy of `text`.
    pub(super) fn share(&self, text: &str) -> Arc<str> {
        // A set of texts is whole at every moment, so a panic elsewhere does not spoil it.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(text).unwrap_or_else(|| known.keep(text.into()))
    }
}
