//! `v1` Namespace, pruned to its labels, which `--watch-namespace-selector` matches.

use k8s_openapi::api::core::v1 as core;
use sluice_config::NamespacedName;

use super::identity::ObjectIdentity;

/// The part of a Namespace that translation reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Name; the namespace is empty.
    pub name: NamespacedName,
    /// Distinguishes objects that had this name at different times.
    pub identity: ObjectIdentity,
    /// `metadata.labels`, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
}

impl Namespace {
    pub(super) fn pruned(name: NamespacedName, object: core::Namespace) -> Self {
        let identity = ObjectIdentity::of(&object.metadata);
        let labels = object.metadata.labels.unwrap_or_default().into_iter();
        Self { name, identity, labels: labels.map(|(key, value)| (key.into(), value.into())).collect() }
    }
}
