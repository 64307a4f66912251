//! An object of any served kind.

use std::sync::Arc;

use sluice_config::NamespacedName;

use super::identity::ObjectIdentity;
use super::kind::{Kind, ObjectKey};
use super::kinds::for_each_kind;
use super::reference::DataFields;
use super::{ConfigMap, EndpointSlice, Ingress, IngressClass, Namespace, Node, Secret, Service};

macro_rules! objects {
    ($($kind:ident: $store:ident, $api:ty, $group:literal, $resource:literal, $namespaced:literal, $need:ident,
        $doc:literal;)*) => {
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
    };
}

for_each_kind!(objects);

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
