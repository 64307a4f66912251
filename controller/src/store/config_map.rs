//! `v1` ConfigMap, pruned.

use std::fmt;

use k8s_openapi::api::core::v1 as core;
use sluice_config::NamespacedName;

use super::identity::ObjectIdentity;
use super::reference::DataFields;

/// The part of a ConfigMap that translation reads.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigMap {
    /// Namespace and name.
    pub name: NamespacedName,
    /// Distinguishes objects that had this name at different times.
    pub identity: ObjectIdentity,
    /// The keys of `data` that were kept.
    pub fields: DataFields,
    /// `data`, sorted by key.
    pub data: Box<[(Box<str>, Box<str>)]>,
}

impl ConfigMap {
    pub(super) fn pruned(name: NamespacedName, object: core::ConfigMap, fields: DataFields) -> Self {
        let identity = ObjectIdentity::of(&object.metadata);
        let data = object.data.unwrap_or_default().into_iter();
        let data =
            data.filter(|(key, _)| fields.has(key)).map(|(key, value)| (key.into(), value.into())).collect();
        Self { name, identity, fields, data }
    }
}

/// Omits the values: header fields may contain credentials.
impl fmt::Debug for ConfigMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfigMap({})", self.name)
    }
}
