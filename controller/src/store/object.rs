//! The kinds that are served, and an object of any of them.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _};
use sluice_config::{NamespacedName, ObjectRef};

use super::identity::Identity;
use super::prune::{Prune, PruneError};
use super::{ConfigMap, EndpointSlice, Ingress, IngressClass, Namespace, Secret, Service};

/// A kind that translation reads. Every other kind is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `networking.k8s.io/v1` Ingress.
    Ingress,
    /// `networking.k8s.io/v1` IngressClass.
    IngressClass,
    /// `v1` Service.
    Service,
    /// `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice,
    /// `v1` Secret.
    Secret,
    /// `v1` ConfigMap.
    ConfigMap,
    /// `v1` Namespace.
    Namespace,
}

impl Kind {
    /// All kinds, with the API group of each.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Ingress, "networking.k8s.io"),
        (Self::IngressClass, "networking.k8s.io"),
        (Self::Service, ""),
        (Self::EndpointSlice, "discovery.k8s.io"),
        (Self::Secret, ""),
        (Self::ConfigMap, ""),
        (Self::Namespace, ""),
    ];

    /// The name as Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ingress => "Ingress",
            Self::IngressClass => "IngressClass",
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
            Self::Namespace => "Namespace",
        }
    }

    /// The kind that is spelled so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(kind, _)| kind.as_str() == name).map(|(kind, _)| kind)
    }

    /// The kind of an object by its `apiVersion` and `kind`. Other versions of a served group count as
    /// served, so that decoding them says what is wrong with the version.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        Self::ALL.into_iter().find(|(k, g)| k.as_str() == kind && *g == group).map(|(kind, _)| kind)
    }

    /// Whether objects of this kind live in a namespace.
    pub fn is_namespaced(self) -> bool {
        !matches!(self, Self::IngressClass | Self::Namespace)
    }
}

/// Identity of an object of a served kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace, empty for kinds of the cluster, and name.
    pub name: NamespacedName,
}

impl ObjectKey {
    /// The same for problems.
    pub fn object_ref(&self) -> ObjectRef {
        ObjectRef { kind: self.kind.as_str().into(), name: self.name.clone() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}

/// An object of a served kind, pruned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is the type of its name")]
pub enum Object {
    Ingress(Arc<Ingress>),
    IngressClass(Arc<IngressClass>),
    Service(Arc<Service>),
    EndpointSlice(Arc<EndpointSlice>),
    Secret(Arc<Secret>),
    ConfigMap(Arc<ConfigMap>),
    Namespace(Arc<Namespace>),
}

impl Object {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Ingress(_) => Kind::Ingress,
            Self::IngressClass(_) => Kind::IngressClass,
            Self::Service(_) => Kind::Service,
            Self::EndpointSlice(_) => Kind::EndpointSlice,
            Self::Secret(_) => Kind::Secret,
            Self::ConfigMap(_) => Kind::ConfigMap,
            Self::Namespace(_) => Kind::Namespace,
        }
    }

    /// Its namespace and name.
    pub fn name(&self) -> &NamespacedName {
        match self {
            Self::Ingress(object) => &object.name,
            Self::IngressClass(object) => &object.name,
            Self::Service(object) => &object.name,
            Self::EndpointSlice(object) => &object.name,
            Self::Secret(object) => &object.name,
            Self::ConfigMap(object) => &object.name,
            Self::Namespace(object) => &object.name,
        }
    }

    /// Which of all objects of its name it is.
    pub fn identity(&self) -> &Identity {
        match self {
            Self::Ingress(object) => &object.identity,
            Self::IngressClass(object) => &object.identity,
            Self::Service(object) => &object.identity,
            Self::EndpointSlice(object) => &object.identity,
            Self::Secret(object) => &object.identity,
            Self::ConfigMap(object) => &object.identity,
            Self::Namespace(object) => &object.identity,
        }
    }

    /// Its kind and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey { kind: self.kind(), name: self.name().clone() }
    }
}

/// Decodes one object of a known kind and prunes it in the same step, from whatever format.
pub(crate) struct ObjectSeed<'a> {
    /// The kind to decode.
    pub(crate) kind: Kind,
    /// What to keep of it.
    pub(crate) prune: &'a Prune,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
    /// `None`: nothing of this object is needed.
    type Value = Option<Object>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        fn pruned<'de, K: Deserialize<'de>, D: Deserializer<'de>>(
            input: D,
            prune: impl FnOnce(K) -> Result<Option<Object>, PruneError>,
        ) -> Result<Option<Object>, D::Error> {
            prune(K::deserialize(input)?).map_err(D::Error::custom)
        }
        let prune = self.prune;
        match self.kind {
            Kind::Ingress => pruned(input, |object| prune.ingress(object).map(Some)),
            Kind::IngressClass => pruned(input, |object| prune.ingress_class(object).map(Some)),
            Kind::Service => pruned(input, |object| prune.service(object).map(Some)),
            Kind::EndpointSlice => pruned(input, |object| prune.endpoint_slice(object).map(Some)),
            Kind::Secret => pruned(input, |object| prune.secret(object)),
            Kind::ConfigMap => pruned(input, |object| prune.config_map(object)),
            Kind::Namespace => pruned(input, |object| prune.namespace(object).map(Some)),
        }
    }
}
