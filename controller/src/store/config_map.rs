//! `v1` ConfigMap, pruned.

use std::fmt;

use k8s_openapi::api::core::v1 as core;
use sluice_config::NamespacedName;

use super::identity::Identity;
use super::reference::Fields;

/// What translation reads of a ConfigMap.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigMap {
    /// Namespace and name.
    pub name: NamespacedName,
    /// Which of all objects of this name it is.
    pub identity: Identity,
    /// What was kept of it.
    pub fields: Fields,
    /// `data`, sorted by key.
    pub data: Box<[(Box<str>, Box<str>)]>,
}

impl ConfigMap {
    pub(super) fn pruned(name: NamespacedName, object: core::ConfigMap, fields: Fields) -> Self {
        let identity = Identity::of(&object.metadata);
        let data = object.data.unwrap_or_default().into_iter();
        let data =
            data.filter(|(key, _)| fields.has(key)).map(|(key, value)| (key.into(), value.into())).collect();
        Self { name, identity, fields, data }
    }
}

/// Values are not shown: header fields may let their bearer in.
impl fmt::Debug for ConfigMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfigMap({})", self.name)
    }
}
