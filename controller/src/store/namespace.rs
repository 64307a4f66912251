//! `v1` Namespace, pruned to its labels, which `--watch-namespace-selector` looks at.

use k8s_openapi::api::core::v1 as core;
use sluice_config::NamespacedName;

use super::identity::Identity;

/// What translation reads of a Namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Name; the namespace is empty.
    pub name: NamespacedName,
    /// Which of all objects of this name it is.
    pub identity: Identity,
    /// `metadata.labels`, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
}

impl Namespace {
    pub(super) fn pruned(name: NamespacedName, object: core::Namespace) -> Self {
        let identity = Identity::of(&object.metadata);
        let labels = object.metadata.labels.unwrap_or_default().into_iter();
        Self { name, identity, labels: labels.map(|(key, value)| (key.into(), value.into())).collect() }
    }
}
