//! Interning of values with many holders: namespaces, port names, policies of Ingresses.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// A set of interned values.
#[derive(Debug)]
pub(crate) struct Shared<T: ?Sized> {
    known: HashSet<Arc<T>>,
    /// Number of values at which unused ones are dropped.
    limit: usize,
}

const SMALLEST_LIMIT: usize = 1024;

impl<T: ?Sized + Eq + Hash> Shared<T> {
    /// Returns the interned copy of `value`, if there is one.
    pub(crate) fn get(&self, value: &T) -> Option<Arc<T>> {
        self.known.get(value).cloned()
    }

    /// Returns the interned copy of `value`, or interns `value` itself.
    pub(crate) fn keep(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some(known) = self.known.get(&value) {
            return known.clone();
        }
        if self.known.len() >= self.limit {
            self.known.retain(|value| Arc::strong_count(value) > 1);
            self.limit = SMALLEST_LIMIT.max(self.known.len() * 2);
        }
        self.known.insert(value.clone());
        value
    }
}

impl<T: ?Sized> Default for Shared<T> {
    fn default() -> Self {
        Self { known: HashSet::new(), limit: SMALLEST_LIMIT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shared_while_they_are_held_and_forgotten_after() {
        let mut shared = Shared::<str>::default();
        let held = shared.keep("held".into());
        for n in 0..10 * SMALLEST_LIMIT {
            shared.keep(n.to_string().into());
        }
        assert!(Arc::ptr_eq(&held, &shared.get("held").unwrap()));
        assert!(Arc::ptr_eq(&held, &shared.keep("held".into())));
        assert!(shared.known.len() <= SMALLEST_LIMIT);
    }
}
