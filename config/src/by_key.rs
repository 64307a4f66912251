//! A map whose values know their own keys. A map of keys and values would hold the key of every value once more,
//! which is four fifths of an entry where keys are names and values are pointers.
//!
//! The crate `iddqd` has such maps too; its entries keep an index and the hash beside the value, which is as much
//! as the key would be here.

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Something that knows its key.
pub trait Keyed {
    /// What it is known by.
    type Key: Hash + Eq;

    /// Its key, which must not change while it is in a map.
    fn key(&self) -> &Self::Key;
}

impl<T: Keyed + ?Sized> Keyed for Arc<T> {
    type Key = T::Key;

    fn key(&self) -> &Self::Key {
        (**self).key()
    }
}

/// Values by their keys.
pub struct ByKey<T> {
    hasher: RandomState,
    table: HashTable<T>,
}

impl<T: Keyed> ByKey<T> {
    /// The value of that key.
    pub fn get(&self, key: &T::Key) -> Option<&T> {
        self.table.find(self.hasher.hash_one(key), |value| value.key() == key)
    }

    /// The value of that key, to change anything but its key.
    pub fn get_mut(&mut self, key: &T::Key) -> Option<&mut T> {
        self.table.find_mut(self.hasher.hash_one(key), |value| value.key() == key)
    }

    /// The value of that key, which `make` makes where there is none. What it makes must have that key.
    pub fn get_or_insert_with(&mut self, key: &T::Key, make: impl FnOnce() -> T) -> &mut T {
        let hash = |value: &T| self.hasher.hash_one(value.key());
        let hash_of_key = self.hasher.hash_one(key);
        self.table.entry(hash_of_key, |value| value.key() == key, hash).or_insert_with(make).into_mut()
    }

    /// Puts a value in. Returns the one it replaces.
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

    /// Takes a value out.
    pub fn remove(&mut self, key: &T::Key) -> Option<T> {
        let found = self.table.find_entry(self.hasher.hash_one(key), |value| value.key() == key);
        found.ok().map(|entry| entry.remove().0)
    }
}

impl<T> ByKey<T> {
    /// All values, in no order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.table.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
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
