//! `v1` Secret, pruned to the needed keys. Everything else is dropped at once.

use std::fmt;

use k8s_openapi::api::core::v1 as core;
use sluice_config::NamespacedName;

use super::identity::ObjectIdentity;
use super::reference::DataFields;

/// A key of `data` with its value.
type Entry = (Box<str>, Box<[u8]>);

/// The part of a Secret that translation reads.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// Namespace and name.
    pub name: NamespacedName,
    /// Distinguishes objects that had this name at different times.
    pub identity: ObjectIdentity,
    /// The keys of `data` that were kept.
    pub fields: DataFields,
    /// `data`, sorted by key.
    pub data: Box<[Entry]>,
}

impl Secret {
    /// `stringData` overrides `data`, as in an API server.
    pub(super) fn pruned(name: NamespacedName, object: core::Secret, fields: DataFields) -> Self {
        let identity = ObjectIdentity::of(&object.metadata);
        let mut data = object.data.unwrap_or_default();
        let text = object.string_data.unwrap_or_default().into_iter();
        data.extend(text.map(|(key, text)| (key, k8s_openapi::ByteString(text.into_bytes()))));
        let needed = data.into_iter().filter(|(key, _)| fields.has(key));
        let data = needed.map(|(key, bytes)| (key.into(), bytes.0.into())).collect();
        Self { name, identity, fields, data }
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        let index = self.data.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        Some(&self.data[index].1)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.name)
    }
}
