//! One copy of a text that many objects hold: namespaces, classes, names of annotations and ports, zones.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Shared texts.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    texts: HashSet<Arc<str>>,
    /// At this many, those that nobody holds any more are let go.
    limit: usize,
}

const SMALLEST_LIMIT: usize = 1024;

impl Names {
    /// The one copy of `text`.
    pub(super) fn share(&self, text: &str) -> Arc<str> {
        // A set of texts is whole at every moment, so a panic elsewhere does not spoil it.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = known.texts.get(text) {
            return text.clone();
        }
        if known.texts.len() >= known.limit {
            known.texts.retain(|text| Arc::strong_count(text) > 1);
            known.limit = SMALLEST_LIMIT.max(known.texts.len() * 2);
        }
        let new: Arc<str> = text.into();
        known.texts.insert(new.clone());
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shared_while_they_are_held_and_forgotten_after() {
        let names = Names::default();
        let held = names.share("held");
        for n in 0..10 * SMALLEST_LIMIT {
            names.share(&n.to_string());
        }
        assert!(Arc::ptr_eq(&held, &names.share("held")));
        assert!(names.0.lock().unwrap().texts.len() <= SMALLEST_LIMIT);
    }
}
