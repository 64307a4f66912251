//! `networking.k8s.io/v1` IngressClass, pruned.

use k8s_openapi::api::networking::v1 as networking;
use sluice_config::NamespacedName;

use super::identity::ObjectIdentity;
use super::prune::created;

const DEFAULT_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";

/// The part of an IngressClass that translation reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressClass {
    /// Name; the namespace is empty.
    pub name: NamespacedName,
    /// Distinguishes objects that had this name at different times.
    pub identity: ObjectIdentity,
    /// Creation time in Unix seconds. `None` counts as older than all others.
    pub created: Option<i64>,
    /// `spec.controller`.
    pub controller: Box<str>,
    /// Annotation `ingressclass.kubernetes.io/is-default-class`.
    pub is_default: bool,
}

impl IngressClass {
    pub(super) fn pruned(name: NamespacedName, object: networking::IngressClass) -> Self {
        let identity = ObjectIdentity::of(&object.metadata);
        let annotations = object.metadata.annotations.unwrap_or_default();
        Self {
            name,
            identity,
            created: created(object.metadata.creation_timestamp.as_ref()),
            controller: object.spec.and_then(|spec| spec.controller).unwrap_or_default().into(),
            is_default: annotations.get(DEFAULT_ANNOTATION).is_some_and(|value| value == "true"),
        }
    }
}
