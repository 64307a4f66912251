//! The known objects, typed and pruned to what translation reads, by key.
//!
//! Whole Kubernetes objects are never kept: a source converts each into one of the small structs
//! below and drops the rest at once. 5,000 Ingresses with their Services therefore fit into a few
//! megabytes. Objects are immutable and shared by `Arc`, so that a source can keep them too, to
//! detect unchanged objects, without a second copy.

mod batch;
mod config_map;
mod endpoint_slice;
mod identity;
mod ingress;
mod ingress_change;
mod ingress_class;
mod kind;
mod kinds;
mod names;
mod namespace;
mod node;
mod object;
mod prunable;
mod prune;
mod reference;
mod resolved;
mod route_path;
mod secret;
mod service;

use std::sync::Arc;

use sluice_config::{ByKey, Keyed, NamespacedName, ObjectRef, Uid};

pub use batch::{Batch, ClassAccess, Event, Progress, References};
pub use config_map::ConfigMap;
pub use endpoint_slice::{AddressType, EndpointSlice, Hints, SliceEndpoint, SlicePort};
pub use identity::ObjectIdentity;
pub use ingress::{Address, Ingress, IngressRule, OWN_PREFIX, PublishedStatus};
pub use ingress_change::{IngressChange, IngressChanges};
pub use ingress_class::IngressClass;
pub use kind::{Kind, Need, ObjectKey};
pub(crate) use kinds::for_each_kind;
pub use namespace::Namespace;
pub use node::Node;
pub use object::Object;
pub(crate) use prunable::{ObjectSeed, Prunable};
pub use prune::{Prune, PruneError};
pub use reference::{DataFields, Needs, Reference};
pub use resolved::{LookedUp, Resolved};
pub use route_path::{BackendRef, PathType, PortRef, RoutePath, TlsSection};
pub use secret::Secret;
pub use service::{Service, ServicePort, TargetPort};

macro_rules! store {
    ($($kind:ident: $store:ident, $api:ty, $group:literal, $resource:literal, $namespaced:literal, $need:ident,
        $doc:literal;)*) => {
        /// All known objects, by kind and key.
        #[derive(Default)]
        pub struct Store {
            $($store: ByKey<Arc<$kind>>,)*
            slices_of: ByKey<SlicesOf>,
        }

        impl Store {
            /// Inserts an object. Returns the one that it replaces.
            pub fn put(&mut self, object: Object) -> Option<Object> {
                let slice = object.slice().cloned();
                let old = match object {
                    $(Object::$kind(new) => self.$store.insert(new).map(Object::$kind),)*
                };
                self.relink(old.as_ref().and_then(Object::slice), slice);
                old
            }

            /// Removes an object and returns it.
            pub fn delete(&mut self, key: &ObjectKey) -> Option<Object> {
                let old = match key.kind {
                    $(Kind::$kind => self.$store.remove(&key.name).map(Object::$kind),)*
                };
                self.relink(old.as_ref().and_then(Object::slice), None);
                old
            }

            /// Returns an object of any kind.
            pub fn get(&self, key: &ObjectKey) -> Option<Object> {
                match key.kind {
                    $(Kind::$kind => self.$store.get(&key.name).cloned().map(Object::$kind),)*
                }
            }

            /// Returns the uid of a known object.
            pub fn uid(&self, object: &ObjectRef) -> Option<&Uid> {
                let identity = match Kind::named(&object.kind)? {
                    $(Kind::$kind => &self.$store.get(&object.name)?.identity,)*
                };
                identity.uid.as_ref()
            }
        }

        $(impl Keyed for $kind {
            type Key = NamespacedName;

            fn key(&self) -> &NamespacedName {
                &self.name
            }
        })*
    };
}

for_each_kind!(store);

/// The EndpointSlices of a Service. Most Services have exactly one.
struct SlicesOf {
    first: Arc<EndpointSlice>,
    others: Vec<Arc<EndpointSlice>>,
}

impl Store {
    /// Returns the Ingress `name`.
    pub fn ingress(&self, name: &NamespacedName) -> Option<&Arc<Ingress>> {
        self.ingresses.get(name)
    }

    /// Iterates over all Ingresses, in no particular order.
    pub fn ingresses(&self) -> impl Iterator<Item = &Arc<Ingress>> {
        self.ingresses.values()
    }

    /// Returns the IngressClass `name`.
    pub fn class(&self, name: &NamespacedName) -> Option<&Arc<IngressClass>> {
        self.classes.get(name)
    }

    /// Iterates over all IngressClasses, in no particular order.
    pub fn classes(&self) -> impl Iterator<Item = &Arc<IngressClass>> {
        self.classes.values()
    }

    /// Returns the Service `name`.
    pub fn service(&self, name: &NamespacedName) -> Option<&Arc<Service>> {
        self.services.get(name)
    }

    /// Iterates over the EndpointSlices of `service`, in no particular order.
    pub fn slices_of(&self, service: &NamespacedName) -> impl Iterator<Item = &Arc<EndpointSlice>> {
        let of = self.slices_of.get(service).into_iter();
        of.flat_map(|of| std::iter::once(&of.first).chain(&of.others))
    }

    /// Returns the Secret `name`.
    pub fn secret(&self, name: &NamespacedName) -> Option<&Arc<Secret>> {
        self.secrets.get(name)
    }

    /// Returns the ConfigMap `name`.
    pub fn config_map(&self, name: &NamespacedName) -> Option<&Arc<ConfigMap>> {
        self.config_maps.get(name)
    }

    /// Returns the Namespace `name`.
    pub fn namespace(&self, name: &NamespacedName) -> Option<&Arc<Namespace>> {
        self.namespaces.get(name)
    }

    /// Returns the Node `name`.
    pub fn node(&self, name: &NamespacedName) -> Option<&Arc<Node>> {
        self.nodes.get(name)
    }

    /// Updates the index of EndpointSlices by Service.
    fn relink(&mut self, old: Option<&Arc<EndpointSlice>>, new: Option<Arc<EndpointSlice>>) {
        if let Some(old) = old {
            self.unlink_slice(old);
        }
        if let Some(new) = new {
            self.link_slice(new);
        }
    }

    fn link_slice(&mut self, slice: Arc<EndpointSlice>) {
        match self.slices_of.get_mut(&slice.service) {
            Some(of) => of.others.push(slice),
            None => drop(self.slices_of.insert(SlicesOf { first: slice, others: Vec::new() })),
        }
    }

    fn unlink_slice(&mut self, slice: &EndpointSlice) {
        let Some(of) = self.slices_of.get_mut(&slice.service) else { return };
        of.others.retain(|other| other.name != slice.name);
        if of.first.name != slice.name {
            return;
        }
        match of.others.pop() {
            Some(other) => of.first = other,
            None => drop(self.slices_of.remove(&slice.service)),
        }
    }
}

impl Keyed for SlicesOf {
    type Key = NamespacedName;

    fn key(&self) -> &NamespacedName {
        &self.first.service
    }
}
