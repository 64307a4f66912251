//! The identity of an object, which distinguishes objects that had the same name at different
//! times.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sluice_config::Uid;

/// Metadata that an API server assigns. Empty for objects from manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectIdentity {
    /// `metadata.uid`.
    pub uid: Option<Uid>,
    /// `metadata.generation`: counts changes by authors. 0 for kinds without it.
    pub generation: i64,
}

impl ObjectIdentity {
    pub(super) fn of(metadata: &ObjectMeta) -> Self {
        let uid = metadata.uid.as_deref().filter(|uid| !uid.is_empty());
        Self { uid: uid.map(Uid::new), generation: metadata.generation.unwrap_or_default() }
    }
}
