//! Numbers of users by key.

use std::collections::HashMap;
use std::hash::Hash;

/// Counts the users of each key.
#[derive(Debug)]
pub(crate) struct Users<K>(HashMap<K, u32>);

impl<K> Default for Users<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Clone + Eq + Hash> Users<K> {
    /// Counts a user. Returns whether it is the first one.
    pub(crate) fn add(&mut self, key: &K) -> bool {
        match self.0.get_mut(key) {
            Some(users) => *users += 1,
            None => drop(self.0.insert(key.clone(), 1)),
        }
        self.0[key] == 1
    }

    /// Removes a user. Returns whether it was the last one.
    pub(crate) fn remove(&mut self, key: &K) -> bool {
        let Some(users) = self.0.get_mut(key) else { return false };
        *users -= 1;
        let was_last = *users == 0;
        if was_last {
            self.0.remove(key);
        }
        was_last
    }

    /// Returns whether a key has users.
    pub(crate) fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// Returns the keys that have users.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_user_are_reported() {
        let mut users = Users::default();
        assert!(users.add(&"a") && !users.add(&"a") && users.add(&"b"));
        assert!(!users.remove(&"a") && users.contains(&"a") && users.remove(&"a"));
        assert!(!users.contains(&"a") && !users.remove(&"a"));
        assert_eq!(users.keys().collect::<Vec<_>>(), [&"b"]);
    }
}
