//! `v1` ConfigMap, pruned.

use k8s_openapi::api::core::v1 as core;
use sluice_config::NamespacedName;

use super::identity::Identity;

/// What translation reads of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMap {
    /// Namespace and name.
    pub name: NamespacedName,
    /// Which of all objects of this name it is.
    pub identity: Identity,
    /// `data`, sorted by key, empty values left out.
    pub data: Box<[(Box<str>, Box<str>)]>,
}

impl ConfigMap {
    pub(super) fn pruned(name: NamespacedName, object: core::ConfigMap) -> Self {
        let identity = Identity::of(&object.metadata);
        let data = object.data.unwrap_or_default().into_iter();
        Self {
            name,
            identity,
            data: data
                .filter(|(_, value)| !value.trim().is_empty())
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        }
    }
}
