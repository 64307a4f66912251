//! `v1` ConfigMap, pruned.

use k8s_openapi::api::core::v1 as core;
use sluice_config::NamespacedName;

/// What translation reads of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMap {
    /// Namespace and name.
    pub name: NamespacedName,
    /// `data`, sorted by key, empty values left out.
    pub data: Box<[(Box<str>, Box<str>)]>,
}

impl ConfigMap {
    pub(super) fn pruned(name: NamespacedName, object: core::ConfigMap) -> Self {
        let data = object.data.unwrap_or_default().into_iter();
        Self {
            name,
            data: data
                .filter(|(_, value)| !value.trim().is_empty())
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        }
    }
}
