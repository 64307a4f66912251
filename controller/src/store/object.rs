//! The kinds that are served, and an object of any of them.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _};
use sluice_config::{NamespacedName, ObjectRef};

use super::identity::Identity;
use super::kinds::for_each_kind;
use super::prune::{Prunable, Prune};
use super::reference::Fields;
use super::{ConfigMap, EndpointSlice, Ingress, IngressClass, Namespace, Node, Secret, Service};

/// Whether the program can do without a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Every API has it: without it, something is wrong, and the start waits.
    Required,
    /// It comes with a CustomResourceDefinition that a cluster may not have. Then there are no such objects, which is no
    /// problem; they are picked up when it appears.
    Optional,
}

macro_rules! kinds {
    ($($kind:ident: $store:ident, $api:ty, $group:literal, $resource:literal, $namespaced:literal, $need:ident,
        $doc:literal;)*) => {
        /// A kind that translation reads. Every other kind is skipped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = $doc] $kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// The name as Kubernetes spells it.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$kind => stringify!($kind),)* }
            }

            /// Its API group.
            pub fn group(self) -> &'static str {
                match self { $(Self::$kind => $group,)* }
            }

            /// The resource as rules for access spell it.
            pub fn resource(self) -> &'static str {
                match self { $(Self::$kind => $resource,)* }
            }

            /// Whether objects of this kind live in a namespace.
            pub fn is_namespaced(self) -> bool {
                match self { $(Self::$kind => $namespaced,)* }
            }

            /// Whether the program can do without it.
            pub fn need(self) -> Need {
                match self { $(Self::$kind => Need::$need,)* }
            }
        }

        /// An object of a served kind, pruned.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Object {
            $(#[doc = $doc] $kind(Arc<$kind>),)*
        }

        impl Object {
            /// Its kind.
            pub fn kind(&self) -> Kind {
                match self { $(Self::$kind(_) => Kind::$kind,)* }
            }

            /// Its namespace and name.
            pub fn name(&self) -> &NamespacedName {
                match self { $(Self::$kind(object) => &object.name,)* }
            }

            /// Which of all objects of its name it is.
            pub fn identity(&self) -> &Identity {
                match self { $(Self::$kind(object) => &object.identity,)* }
            }
        }

        impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
            /// `None`: nothing of this object is needed.
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
    /// The kind that is spelled so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }

    /// The kind of an object by its `apiVersion` and `kind`. Other versions of a served group count as
    /// served, so that decoding them says what is wrong with the version.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        Self::named(kind).filter(|kind| kind.group() == group)
    }

    /// The rule of a role that gives the rights to read it.
    pub(crate) fn rule(self) -> String {
        format!(
            "{{apiGroups: [{:?}], resources: [{:?}], verbs: [\"list\", \"watch\"]}}",
            self.group(),
            self.resource()
        )
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

impl ObjectKey {
    /// What is known of an object of this name that nothing refers to, if it is of a kind of which that matters.
    pub(crate) fn unreferred(&self) -> Option<Object> {
        let (name, identity, fields) = (self.name.clone(), Default::default(), Fields::NONE);
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
    /// What was kept of it, where that depends on what refers to it.
    pub(crate) fn fields(&self) -> Option<&Fields> {
        match self {
            Self::Secret(secret) => Some(&secret.fields),
            Self::ConfigMap(config_map) => Some(&config_map.fields),
            _ => None,
        }
    }

    /// Whether nothing refers to it: a source knows that it is there, and the store does not.
    pub(crate) fn is_unreferred(&self) -> bool {
        self.fields() == Some(&Fields::NONE)
    }

    /// The EndpointSlice that it may be.
    pub(super) fn slice(&self) -> Option<&Arc<EndpointSlice>> {
        match self {
            Self::EndpointSlice(slice) => Some(slice),
            _ => None,
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

#[cfg(test)]
mod tests {
    use k8s_openapi::Resource;

    use super::*;

    #[test]
    fn the_table_says_what_the_api_says() {
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
