//! A map whose values know their own keys. A map of keys and values would hold the name of every object once
//! more, which is four fifths of an entry.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use sluice_config::NamespacedName;

/// Something that knows its name.
pub(crate) trait Named {
    /// Its name, which must not change.
    fn name(&self) -> &NamespacedName;
}

/// Values by their names.
pub(crate) struct ByName<T> {
    hasher: RandomState,
    table: HashTable<Arc<T>>,
}

impl<T: Named> ByName<T> {
    /// The value of that name.
    pub(crate) fn get(&self, name: &NamespacedName) -> Option<&Arc<T>> {
        self.table.find(self.hasher.hash_one(name), |value| value.name() == name)
    }

    /// Puts a value in. Returns the one it replaces.
    pub(crate) fn insert(&mut self, value: Arc<T>) -> Option<Arc<T>> {
        let hash = |value: &Arc<T>| self.hasher.hash_one(value.name());
        match self.table.entry(hash(&value), |other| other.name() == value.name(), hash) {
            Entry::Occupied(mut old) => Some(std::mem::replace(old.get_mut(), value)),
            Entry::Vacant(place) => {
                place.insert(value);
                None
            }
        }
    }

    /// Takes a value out.
    pub(crate) fn remove(&mut self, name: &NamespacedName) -> Option<Arc<T>> {
        let found = self.table.find_entry(self.hasher.hash_one(name), |value| value.name() == name);
        found.ok().map(|entry| entry.remove().0)
    }

    /// All values, in no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.table.iter()
    }
}

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self { hasher: RandomState::new(), table: HashTable::new() }
    }
}

impl<T> fmt::Debug for ByName<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByName").field("len", &self.table.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Thing(NamespacedName, u32);

    impl Named for Thing {
        fn name(&self) -> &NamespacedName {
            &self.0
        }
    }

    #[test]
    fn a_value_is_found_replaced_and_removed_by_its_own_name() {
        let thing =
            |name: u32, version| Arc::new(Thing(NamespacedName::new("n", &name.to_string()), version));
        let mut things = ByName::default();
        for name in 0..1000 {
            assert_eq!(things.insert(thing(name, 1)), None);
        }
        assert_eq!(things.insert(thing(7, 2)), Some(thing(7, 1)));
        assert_eq!(things.get(&thing(7, 0).0), Some(&thing(7, 2)));
        assert_eq!(things.remove(&thing(7, 0).0), Some(thing(7, 2)));
        assert_eq!(things.remove(&thing(7, 0).0), None);
        assert_eq!(things.get(&thing(7, 0).0), None);
        assert_eq!(things.values().count(), 999);
    }
}
