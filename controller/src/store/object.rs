//! The served kinds, and an object of any of them.

use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _};
use sluice_config::{NamespacedName, ObjectRef};

use super::identity::ObjectIdentity;
use super::kinds::for_each_kind;
use super::prune::{Prunable, Prune};
use super::reference::DataFields;
use super::{ConfigMap, EndpointSlice, Ingress, IngressClass, Namespace, Node, Secret, Service};

/// Whether the program requires a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Every API server has it. If it is missing, something is wrong and the start waits.
    Required,
    /// Belongs to a CustomResourceDefinition that may not be installed. Its absence is not a
    /// problem; objects are picked up once it is installed.
    Optional,
}

macro_rules! kinds {
    ($($kind:ident: $store:ident, $api:ty, $group:literal, $resource:literal, $namespaced:literal, $need:ident,
        $doc:literal;)*) => {
        /// A kind that translation reads. Other kinds are skipped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = $doc] $kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// Returns the name in Kubernetes' spelling.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$kind => stringify!($kind),)* }
            }

            /// Returns the API group.
            pub fn group(self) -> &'static str {
                match self { $(Self::$kind => $group,)* }
            }

            /// Returns the resource name for RBAC rules.
            pub fn resource(self) -> &'static str {
                match self { $(Self::$kind => $resource,)* }
            }

            /// Returns whether objects of this kind are namespaced.
            pub fn is_namespaced(self) -> bool {
                match self { $(Self::$kind => $namespaced,)* }
            }

            /// Returns whether the program requires the kind.
            pub fn need(self) -> Need {
                match self { $(Self::$kind => Need::$need,)* }
            }
        }

        /// A pruned object of a served kind.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Object {
            $(#[doc = $doc] $kind(Arc<$kind>),)*
        }

        impl Object {
            /// Returns its kind.
            pub fn kind(&self) -> Kind {
                match self { $(Self::$kind(_) => Kind::$kind,)* }
            }

            /// Returns its namespace and name.
            pub fn name(&self) -> &NamespacedName {
                match self { $(Self::$kind(object) => &object.name,)* }
            }

            /// Returns its identity.
            pub fn identity(&self) -> &ObjectIdentity {
                match self { $(Self::$kind(object) => &object.identity,)* }
            }
        }

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

for_each_kind!(kinds);

impl Kind {
    /// Returns the kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }

    /// Returns the kind of an object with this `apiVersion` and `kind`. Other versions of a served
    /// group match too, so that decoding them reports the wrong version.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        Self::named(kind).filter(|kind| kind.group() == group)
    }

    /// Returns the RBAC rule that permits reading it.
    pub(crate) fn rule(self) -> String {
        format!(
            "{{apiGroups: [{:?}], resources: [{:?}], verbs: [\"list\", \"watch\"]}}",
            self.group(),
            self.resource()
        )
    }
}

/// The key of an object of a served kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The kind.
    pub kind: Kind,
    /// Name and namespace. The namespace is empty for cluster-scoped kinds.
    pub name: NamespacedName,
}

impl ObjectKey {
    /// Returns the key as a reference for problems and origins of rules.
    pub fn object_ref(&self) -> ObjectRef {
        // Thousands of rules hold the name of their kind.
        static NAMES: LazyLock<Box<[Arc<str>]>> =
            LazyLock::new(|| Kind::ALL.iter().map(|kind| kind.as_str().into()).collect());
        ObjectRef { kind: NAMES[self.kind as usize].clone(), name: self.name.clone() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}

impl ObjectKey {
    /// Returns what is kept of a Secret or ConfigMap of this name while nothing refers to it.
    /// `None` for other kinds.
    pub(crate) fn unreferred(&self) -> Option<Object> {
        let (name, identity, fields) = (self.name.clone(), Default::default(), DataFields::NONE);
        match self.kind {
            Kind::Secret => {
                Some(Object::Secret(Arc::new(Secret { name, identity, fields, data: Box::default() })))
            }
            Kind::ConfigMap => {
                Some(Object::ConfigMap(Arc::new(ConfigMap { name, identity, fields, data: Box::default() })))
            }
            _ => None,
        }
    }
}

impl Object {
    /// Returns the fields that were kept, for kinds where they depend on references.
    pub(crate) fn fields(&self) -> Option<&DataFields> {
        match self {
            Self::Secret(secret) => Some(&secret.fields),
            Self::ConfigMap(config_map) => Some(&config_map.fields),
            _ => None,
        }
    }

    /// Returns whether nothing refers to it. Sources keep such objects by name; the store does not
    /// hold them.
    pub(crate) fn is_unreferred(&self) -> bool {
        self.fields() == Some(&DataFields::NONE)
    }

    /// Returns the object if it is an EndpointSlice.
    pub(super) fn slice(&self) -> Option<&Arc<EndpointSlice>> {
        match self {
            Self::EndpointSlice(slice) => Some(slice),
            _ => None,
        }
    }

    /// Returns its key.
    pub fn key(&self) -> ObjectKey {
        ObjectKey { kind: self.kind(), name: self.name().clone() }
    }
}

/// Decodes and prunes one object of a known kind in one step, from any format.
pub(crate) struct ObjectSeed<'a> {
    /// The kind to decode.
    pub(crate) kind: Kind,
    /// The rules for what is kept.
    pub(crate) prune: &'a Prune,
}

#[cfg(test)]
mod tests {
    use k8s_openapi::Resource;

    use super::*;

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
}
