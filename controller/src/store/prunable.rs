//! Pruning: converts whole Kubernetes objects to the small ones that are kept. Both sources use it,
//! so they keep the same data.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::networking::v1 as networking;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _};

use super::kind::Kind;
use super::kinds::for_each_kind;
use super::object::Object;
use super::prune::{Prune, PruneError};
use super::{ConfigMap, EndpointSlice, Ingress, IngressClass, Namespace, Node, Secret, Service};

/// Types of Secrets that a gateway never needs but that account for most bytes in a cluster with
/// Helm. Watches exclude them at the API server.
const BULK: [&str; 2] = ["helm.sh/release.v1", "kubernetes.io/service-account-token"];

/// An API type that can be pruned.
pub(crate) trait Prunable: Sized {
    /// The kind.
    const KIND: Kind;

    /// Prunes the object. `None` if nothing of it is needed.
    fn prune(self, prune: &Prune) -> Result<Option<Object>, PruneError>;
}

macro_rules! prunable {
    ($($api:ty, $kind:ident, |$name:ident, $object:ident, $prune:ident| $pruned:expr;)*) => {
        $(impl Prunable for $api {
            const KIND: Kind = Kind::$kind;

            fn prune(self, $prune: &Prune) -> Result<Option<Object>, PruneError> {
                let $name = $prune.name_of(&self.metadata, Self::KIND.is_namespaced())?;
                let $object = self;
                let pruned: Option<$kind> = $pruned;
                Ok(pruned.map(|pruned| Object::$kind(Arc::new(pruned))))
            }
        })*
    };
}

prunable! {
    networking::Ingress, Ingress, |name, object, prune| Some(Ingress::pruned(name, object, prune));
    networking::IngressClass, IngressClass, |name, object, prune| Some(IngressClass::pruned(name, object));
    core::Service, Service, |name, object, prune| Some(Service::pruned(name, object, &prune.names));
    discovery::EndpointSlice, EndpointSlice, |name, object, prune| {
        Some(EndpointSlice::pruned(name, object, prune))
    };
    // Secrets and ConfigMaps are dropped while nothing refers to them.
    core::Secret, Secret, |name, object, prune| {
        let is_bulk = object.type_.as_deref().is_some_and(|kind| BULK.contains(&kind));
        let fields = prune.needs_of(Kind::Secret, &name).filter(|_| !is_bulk);
        fields.map(|fields| Secret::pruned(name, object, fields))
    };
    core::ConfigMap, ConfigMap, |name, object, prune| {
        prune.needs_of(Kind::ConfigMap, &name).map(|fields| ConfigMap::pruned(name, object, fields))
    };
    core::Namespace, Namespace, |name, object, prune| Some(Namespace::pruned(name, object));
    core::Node, Node, |name, object, prune| Some(Node::pruned(name, object));
}

/// Decodes and prunes one object of a known kind in one step, from any format.
pub(crate) struct ObjectSeed<'a> {
    /// The kind to decode.
    pub(crate) kind: Kind,
    /// The rules for what is kept.
    pub(crate) prune: &'a Prune,
}

macro_rules! seeds {
    ($($kind:ident: $store:ident, $api:ty, $group:literal, $resource:literal, $namespaced:literal, $need:ident,
        $doc:literal;)*) => {
        impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
            /// `None` if nothing of the object is needed.
            type Value = Option<Object>;

            fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
                match self.kind {
                    $(Kind::$kind => <$api>::deserialize(input)?.prune(self.prune).map_err(D::Error::custom),)*
                }
            }
        }
    };
}

for_each_kind!(seeds);

impl Prune {
    /// Decodes and prunes an object of a known kind in one step, from any format. Returns `None` if
    /// nothing of it is needed.
    ///
    /// # Errors
    /// The object is not of this kind, or has no name that Kubernetes accepts.
    pub fn read<'de, D: Deserializer<'de>>(&self, kind: Kind, input: D) -> Result<Option<Object>, D::Error> {
        ObjectSeed { kind, prune: self }.deserialize(input)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::Resource;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;
    use crate::options::Options;

    #[test]
    fn the_table_of_kinds_matches_the_api() {
        fn check<K: Resource + Prunable>(kind: Kind) {
            assert_eq!(<K as Prunable>::KIND, kind);
            assert_eq!(<K as Resource>::KIND, kind.as_str());
            assert_eq!((K::GROUP, K::URL_PATH_SEGMENT), (kind.group(), kind.resource()));
            assert_eq!(Kind::of(K::API_VERSION, <K as Resource>::KIND), Some(kind));
            assert_eq!(Kind::named(kind.as_str()), Some(kind));
        }
        macro_rules! check {
            ($($kind:ident: $store:ident, $api:ty, $group:literal, $resource:literal, $namespaced:literal,
                $need:ident, $doc:literal;)*) => {
                $(check::<$api>(Kind::$kind);)*
            };
        }
        for_each_kind!(check);
        let rule = Kind::Ingress.rule();
        assert!(rule.contains("[\"networking.k8s.io\"]") && rule.contains("[\"ingresses\"]"), "{rule}");
    }

    #[test]
    fn secrets_that_are_never_for_a_gateway_are_not_kept() {
        let prune = Prune::new(&Options::default());
        let kept = |kind: Option<&str>| {
            let metadata = ObjectMeta { name: Some("a".to_owned()), ..ObjectMeta::default() };
            let secret = core::Secret { metadata, type_: kind.map(str::to_owned), ..core::Secret::default() };
            secret.prune(&prune).unwrap().is_some()
        };
        assert!(kept(None) && kept(Some("Opaque")) && kept(Some("kubernetes.io/tls")));
        assert!(BULK.iter().all(|kind| !kept(Some(kind))));
    }
}
