//! The needed fields of Secrets and ConfigMaps. There may be thousands of these objects, most are
//! irrelevant here, and some hold secrets of others. Only referenced ones are kept, and of those
//! only the needed fields.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::kind::{Kind, ObjectKey};

/// A referenced object and the fields that are needed of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The Secret or ConfigMap.
    pub object: ObjectKey,
    /// The needed fields.
    pub fields: DataFields,
}

/// A set of keys of `data`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DataFields {
    /// These keys, sorted, without duplicates.
    Named(Vec<&'static str>),
    /// All keys.
    All,
}

/// The needed fields of all objects, shared by all readers of a source. Clones share the state.
#[derive(Clone, Debug)]
pub enum Needs {
    /// All fields of all objects, for sources that are not informed of references.
    Everything,
    /// The recorded ones only.
    Recorded {
        /// Fields by object.
        recorded: Arc<RwLock<HashMap<ObjectKey, DataFields>>>,
        /// Whether other objects are kept by name, for sources that must find them again once they
        /// are referenced.
        knows_rest: bool,
    },
}

impl DataFields {
    /// No keys. Used for objects to which nothing refers.
    pub const NONE: Self = Self::Named(Vec::new());

    /// Returns a set of these keys.
    pub fn named(names: &[&'static str]) -> Self {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        Self::Named(names)
    }

    /// Returns whether a key is in the set.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::Named(names) => names.binary_search(&name).is_ok(),
            Self::All => true,
        }
    }

    /// Returns whether all keys of `other` are in the set.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::Named(_), Self::All) => false,
            (Self::Named(_), Self::Named(names)) => names.iter().all(|name| self.has(name)),
        }
    }

    /// Returns the union of both sets.
    pub fn and(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Named(mut names), Self::Named(others)) => {
                names.extend(others);
                Self::named(&names)
            }
            _ => Self::All,
        }
    }
}

impl Needs {
    /// Records nothing at first.
    pub fn nothing() -> Self {
        Self::Recorded { recorded: Arc::default(), knows_rest: false }
    }

    /// Records nothing at first, and keeps other objects by name.
    pub fn names() -> Self {
        Self::Recorded { recorded: Arc::default(), knows_rest: true }
    }

    /// Returns the needed fields of an object, or `None` if it is not needed.
    pub fn of(&self, object: &ObjectKey) -> Option<DataFields> {
        match self {
            Self::Everything => Some(DataFields::All),
            // Each change of the map is atomic: a panic elsewhere leaves nothing half done.
            Self::Recorded { recorded, knows_rest } => {
                let recorded = recorded.read().unwrap_or_else(PoisonError::into_inner);
                recorded.get(object).cloned().or_else(|| knows_rest.then_some(DataFields::NONE))
            }
        }
    }

    /// Sets the needed fields of an object. `None`: the object is not needed.
    pub fn set(&self, object: &ObjectKey, fields: Option<DataFields>) {
        let Self::Recorded { recorded, .. } = self else { return };
        let mut recorded = recorded.write().unwrap_or_else(PoisonError::into_inner);
        match fields {
            Some(fields) => drop(recorded.insert(object.clone(), fields)),
            None => drop(recorded.remove(object)),
        }
    }
}

impl Kind {
    /// Returns whether objects of this kind are kept only while something refers to them.
    pub fn is_referred(self) -> bool {
        matches!(self, Self::Secret | Self::ConfigMap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_add_up() {
        let tls = DataFields::named(&["tls.key", "tls.crt", "tls.crt"]);
        assert_eq!(tls, DataFields::Named(vec!["tls.crt", "tls.key"]));
        let both = tls.clone().and(&DataFields::named(&["auth", "tls.crt"]));
        assert_eq!(both, DataFields::Named(vec!["auth", "tls.crt", "tls.key"]));
        assert!(both.has("auth") && !both.has("other") && !tls.has("auth"));
        assert!(both.covers(&tls) && tls.covers(&tls) && !tls.covers(&both));
        assert!(
            DataFields::All.covers(&tls)
                && DataFields::All.covers(&DataFields::All)
                && !tls.covers(&DataFields::All)
        );
        assert_eq!(tls.and(&DataFields::All), DataFields::All);
        assert!(DataFields::All.has("other"));
    }
}
