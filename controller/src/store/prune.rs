//! From whole Kubernetes objects to the small ones that are kept. Both sources go through here, so that they
//! cannot differ in what they know.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::networking::v1 as networking;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use sluice_config::NamespacedName;

use super::names::Names;
use super::object::Object;
use super::{ConfigMap, EndpointSlice, Ingress, IngressClass, Namespace, Secret, Service};
use crate::options::Options;

/// What is worth keeping, which depends on the flags.
#[derive(Clone, Debug)]
pub struct Prune {
    pub(super) annotation_prefix: Box<str>,
    pub(super) names: Arc<Names>,
    config_maps: Vec<NamespacedName>,
}

/// Why an object cannot be taken in at all.
#[derive(Debug, thiserror::Error)]
pub enum PruneError {
    /// It has no name.
    #[error("metadata.name is missing: give the object a name")]
    NoName,
}

impl Prune {
    /// What these flags make worth keeping: annotations under `--annotations-prefix`, and only those
    /// ConfigMaps that a flag names.
    pub fn new(options: &Options) -> Self {
        Self {
            annotation_prefix: format!("{}/", options.annotations_prefix).into(),
            names: Arc::default(),
            config_maps: options.configmap.iter().cloned().collect(),
        }
    }

    /// An Ingress.
    ///
    /// # Errors
    /// When it has no name; likewise for all kinds below.
    pub fn ingress(&self, object: networking::Ingress) -> Result<Object, PruneError> {
        let name = self.name_of(&object.metadata, true)?;
        Ok(Object::Ingress(Arc::new(Ingress::pruned(name, object, self))))
    }

    /// An IngressClass.
    ///
    /// # Errors
    /// See [`Prune::ingress`].
    pub fn ingress_class(&self, object: networking::IngressClass) -> Result<Object, PruneError> {
        let name = self.name_of(&object.metadata, false)?;
        Ok(Object::IngressClass(Arc::new(IngressClass::pruned(name, object))))
    }

    /// A Service.
    ///
    /// # Errors
    /// See [`Prune::ingress`].
    pub fn service(&self, object: core::Service) -> Result<Object, PruneError> {
        let name = self.name_of(&object.metadata, true)?;
        Ok(Object::Service(Arc::new(Service::pruned(name, object, &self.names))))
    }

    /// An EndpointSlice.
    ///
    /// # Errors
    /// See [`Prune::ingress`].
    pub fn endpoint_slice(&self, object: discovery::EndpointSlice) -> Result<Object, PruneError> {
        let name = self.name_of(&object.metadata, true)?;
        Ok(Object::EndpointSlice(Arc::new(EndpointSlice::pruned(name, object, &self.names))))
    }

    /// A Secret.
    ///
    /// # Errors
    /// See [`Prune::ingress`].
    pub fn secret(&self, object: core::Secret) -> Result<Object, PruneError> {
        let name = self.name_of(&object.metadata, true)?;
        Ok(Object::Secret(Arc::new(Secret::pruned(name, object))))
    }

    /// A ConfigMap; `None` when no flag names it.
    ///
    /// # Errors
    /// See [`Prune::ingress`].
    pub fn config_map(&self, object: core::ConfigMap) -> Result<Option<Object>, PruneError> {
        let name = self.name_of(&object.metadata, true)?;
        let wanted = self.config_maps.contains(&name);
        Ok(wanted.then(|| Object::ConfigMap(Arc::new(ConfigMap::pruned(name, object)))))
    }

    /// A Namespace.
    ///
    /// # Errors
    /// See [`Prune::ingress`].
    pub fn namespace(&self, object: core::Namespace) -> Result<Object, PruneError> {
        let name = self.name_of(&object.metadata, false)?;
        Ok(Object::Namespace(Arc::new(Namespace::pruned(name, object))))
    }

    /// The name of an object, as pruning gives it.
    ///
    /// # Errors
    /// See [`Prune::ingress`].
    pub(crate) fn name_of(&self, meta: &ObjectMeta, namespaced: bool) -> Result<NamespacedName, PruneError> {
        let name = meta.name.as_deref().filter(|name| !name.is_empty()).ok_or(PruneError::NoName)?;
        let namespace = match meta.namespace.as_deref() {
            _ if !namespaced => "",
            None | Some("") => "default",
            Some(namespace) => namespace,
        };
        Ok(NamespacedName { namespace: self.names.share(namespace), name: name.into() })
    }
}

/// Creation time in Unix seconds, as Kubernetes records it.
pub(super) fn created(time: Option<&Time>) -> Option<i64> {
    time.map(|time| time.0.as_second())
}
