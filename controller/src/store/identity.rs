//! Which of all objects that ever had a name it is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sluice_config::Uid;

/// What an API server says about an object as such. A manifest that never met one says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `metadata.uid`.
    pub uid: Option<Uid>,
    /// `metadata.generation`: counts what its author changed. 0 where the kind has none.
    pub generation: i64,
}

impl Identity {
    pub(super) fn of(metadata: &ObjectMeta) -> Self {
        let uid = metadata.uid.as_deref().filter(|uid| !uid.is_empty());
        Self { uid: uid.map(Uid::new), generation: metadata.generation.unwrap_or_default() }
    }
}
