//! A hash map whose values contain their keys. A map of separate keys and values would store each
//! key twice. If keys are names and values are pointers, the key is four fifths of an entry.
//!
//! The crate `iddqd` has such maps too. Its entries store an index and the hash beside the value,
//! which is as large as the key would be here.

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// A value that contains its key.
pub trait Keyed {
    /// The type of the key.
    type Key: Hash + Eq;

    /// Returns the key, which must not change while the value is in a map.
    fn key(&self) -> &Self::Key;
}

impl<T: Keyed + ?Sized> Keyed for Arc<T> {
    type Key = T::Key;

    fn key(&self) -> &Self::Key {
        (**self).key()
    }
}

/// A map of values by the keys that they contain.
pub struct ByKey<T> {
    hasher: RandomState,
    table: HashTable<T>,
}

impl<T: Keyed> ByKey<T> {
    /// Returns the value of `key`.
    pub fn get(&self, key: &T::Key) -> Option<&T> {
        self.table.find(self.hasher.hash_one(key), |value| value.key() == key)
    }

    /// Returns the value of `key` for changes that leave the key unchanged.
    pub fn get_mut(&mut self, key: &T::Key) -> Option<&mut T> {
        self.table.find_mut(self.hasher.hash_one(key), |value| value.key() == key)
    }

    /// Returns the value of `key`, or inserts the result of `make`, which must have that key.
    pub fn get_or_insert_with(&mut self, key: &T::Key, make: impl FnOnce() -> T) -> &mut T {
        let hash = |value: &T| self.hasher.hash_one(value.key());
        let hash_of_key = self.hasher.hash_one(key);
        self.table.entry(hash_of_key, |value| value.key() == key, hash).or_insert_with(make).into_mut()
    }

    /// Inserts `value`. Returns the value that it replaces.
    pub fn insert(&mut self, value: T) -> Option<T> {
        let hash = |value: &T| self.hasher.hash_one(value.key());
        match self.table.entry(hash(&value), |other| other.key() == value.key(), hash) {
            Entry::Occupied(mut old) => Some(std::mem::replace(old.get_mut(), value)),
            Entry::Vacant(place) => {
                place.insert(value);
                None
            }
        }
    }

    /// Removes the value of `key` and returns it.
    pub fn remove(&mut self, key: &T::Key) -> Option<T> {
        let found = self.table.find_entry(self.hasher.hash_one(key), |value| value.key() == key);
        found.ok().map(|entry| entry.remove().0)
    }
}

impl<T> ByKey<T> {
    /// Iterates over all values, in no particular order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.table.iter()
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

impl<T> Default for ByKey<T> {
    fn default() -> Self {
        Self { hasher: RandomState::new(), table: HashTable::new() }
    }
}

impl<T> fmt::Debug for ByKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByKey").field("len", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Thing(String, u32);

    impl Keyed for Thing {
        type Key = String;

        fn key(&self) -> &String {
            &self.0
        }
    }

    #[test]
    fn a_value_is_found_replaced_and_removed_by_its_own_key() {
        let thing = |name: u32, version| Thing(name.to_string(), version);
        let mut things = ByKey::default();
        for name in 0..1000 {
            assert_eq!(things.insert(thing(name, 1)), None);
        }
        let seven = "7".to_owned();
        assert_eq!(things.insert(thing(7, 2)), Some(thing(7, 1)));
        things.get_mut(&seven).unwrap().1 = 3;
        assert_eq!(things.get(&seven), Some(&thing(7, 3)));
        assert_eq!(things.get_or_insert_with(&seven, || thing(7, 4)), &thing(7, 3));
        assert_eq!(things.remove(&seven), Some(thing(7, 3)));
        assert_eq!(things.remove(&seven), None);
        assert_eq!(things.get(&seven), None);
        assert_eq!(things.values().count(), 999);
        assert_eq!(things.get_or_insert_with(&seven, || thing(7, 5)), &thing(7, 5));
        assert_eq!(things.len(), 1000);
    }
}
