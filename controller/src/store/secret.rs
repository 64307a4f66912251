//! `v1` Secret, pruned to the keys that translation reads: everything else of a Secret is forgotten at once.

use std::fmt;

use k8s_openapi::api::core::v1 as core;
use sluice_config::NamespacedName;

use super::identity::Identity;

/// What translation reads of a Secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// Namespace and name.
    pub name: NamespacedName,
    /// Which of all objects of this name it is.
    pub identity: Identity,
    /// `data[tls.crt]`.
    pub certificate: Option<Box<[u8]>>,
    /// `data[tls.key]`.
    pub key: Option<Box<[u8]>>,
}

impl Secret {
    /// The keys of `data` that are kept.
    pub(crate) const KEYS: [&str; 2] = ["tls.crt", "tls.key"];

    /// `stringData` goes over `data`, as an API server stores it.
    pub(super) fn pruned(name: NamespacedName, object: core::Secret) -> Self {
        let identity = Identity::of(&object.metadata);
        let mut data = object.data.unwrap_or_default();
        let mut text = object.string_data.unwrap_or_default();
        let mut take = |key: &str| -> Option<Box<[u8]>> {
            let text = text.remove(key).map(String::into_bytes);
            text.or_else(|| data.remove(key).map(|bytes| bytes.0)).map(Into::into)
        };
        Self { name, identity, certificate: take(Self::KEYS[0]), key: take(Self::KEYS[1]) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.name)
    }
}
