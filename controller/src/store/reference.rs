//! What is needed of Secrets and ConfigMaps. There may be thousands of them, most are nobody's business here, and some
//! hold secrets of others: so only those are kept that something refers to, and of those only the fields it needs.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::object::{Kind, ObjectKey};

/// An object that something refers to, and what it needs of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// A Secret or ConfigMap.
    pub object: ObjectKey,
    /// Of its `data`.
    pub fields: Fields,
}

/// Which keys of `data` are needed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fields {
    /// These, sorted, each once.
    Named(Vec<&'static str>),
    /// Whatever there is.
    All,
}

/// What is needed, as all readers of a source see it. Clones share it.
#[derive(Clone, Debug)]
pub enum Needs {
    /// Every field of every object: for a source that nobody tells what is referred to.
    Everything,
    /// What was recorded.
    Recorded {
        /// By object.
        recorded: Arc<RwLock<HashMap<ObjectKey, Fields>>>,
        /// Of the others, that they are there: for a source that has to find them again.
        knows_rest: bool,
    },
}

impl Fields {
    /// No field: what is known of an object that nothing refers to.
    pub const NONE: Self = Self::Named(Vec::new());

    /// These.
    pub fn named(names: &[&'static str]) -> Self {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        Self::Named(names)
    }

    /// Whether a key is among them.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::Named(names) => names.binary_search(&name).is_ok(),
            Self::All => true,
        }
    }

    /// These, and those.
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
    /// Nothing, so far.
    pub fn nothing() -> Self {
        Self::Recorded { recorded: Arc::default(), knows_rest: false }
    }

    /// Nothing so far but names.
    pub fn names() -> Self {
        Self::Recorded { recorded: Arc::default(), knows_rest: true }
    }

    /// What is needed of an object; none where nothing refers to it.
    pub fn of(&self, object: &ObjectKey) -> Option<Fields> {
        match self {
            Self::Everything => Some(Fields::All),
            // Each change of the map is one step: a panic elsewhere leaves nothing half done.
            Self::Recorded { recorded, knows_rest } => {
                let recorded = recorded.read().unwrap_or_else(PoisonError::into_inner);
                recorded.get(object).cloned().or_else(|| knows_rest.then_some(Fields::NONE))
            }
        }
    }

    /// This is needed of an object from now on; none is nothing.
    pub fn set(&self, object: &ObjectKey, fields: Option<Fields>) {
        let Self::Recorded { recorded, .. } = self else { return };
        let mut recorded = recorded.write().unwrap_or_else(PoisonError::into_inner);
        match fields {
            Some(fields) => drop(recorded.insert(object.clone(), fields)),
            None => drop(recorded.remove(object)),
        }
    }
}

impl Kind {
    /// Whether objects of this kind are kept only where something refers to them.
    pub fn is_referred(self) -> bool {
        matches!(self, Self::Secret | Self::ConfigMap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_add_up() {
        let tls = Fields::named(&["tls.key", "tls.crt", "tls.crt"]);
        assert_eq!(tls, Fields::Named(vec!["tls.crt", "tls.key"]));
        let both = tls.clone().and(&Fields::named(&["auth", "tls.crt"]));
        assert_eq!(both, Fields::Named(vec!["auth", "tls.crt", "tls.key"]));
        assert!(both.has("auth") && !both.has("other") && !tls.has("auth"));
        assert_eq!(tls.and(&Fields::All), Fields::All);
        assert!(Fields::All.has("other"));
    }
}
