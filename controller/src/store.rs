//! The objects that are known now, typed and pruned to what translation reads, by key.
//!
//! Whole Kubernetes objects are never kept: a source turns each into one of the small structs below and drops
//! the rest at once, which is what lets 5,000 Ingresses with their Services fit into a few megabytes. Objects
//! are immutable and shared by `Arc`, so that a source may keep them too (to notice what did not change)
//! without a second copy.

mod config_map;
mod endpoint_slice;
mod identity;
mod ingress;
mod ingress_class;
mod names;
mod namespace;
mod object;
mod prune;
mod reference;
mod secret;
mod service;

use std::sync::Arc;

use sluice_config::{ByKey, Keyed, NamespacedName, ObjectRef, Uid};

pub use config_map::ConfigMap;
pub use endpoint_slice::{AddressType, EndpointSlice, SliceEndpoint, SlicePort};
pub use identity::Identity;
pub use ingress::{Ingress, IngressBackend, IngressPath, IngressRule, IngressTls, PathType, PortRef};
pub use ingress_class::IngressClass;
pub use namespace::Namespace;
pub(crate) use object::ObjectSeed;
pub use object::{Kind, Object, ObjectKey};
pub use prune::{Prune, PruneError};
pub use reference::{Fields, Needs, Reference};
pub use secret::Secret;
pub use service::{Service, ServicePort, TargetPort};

/// Everything that is known, by kind and key.
#[derive(Default)]
pub struct Store {
    ingresses: ByKey<Arc<Ingress>>,
    classes: ByKey<Arc<IngressClass>>,
    services: ByKey<Arc<Service>>,
    slices: ByKey<Arc<EndpointSlice>>,
    secrets: ByKey<Arc<Secret>>,
    config_maps: ByKey<Arc<ConfigMap>>,
    namespaces: ByKey<Arc<Namespace>>,
    slices_of: ByKey<SlicesOf>,
}

/// The EndpointSlices of a Service, of which nearly every one has one.
struct SlicesOf {
    first: Arc<EndpointSlice>,
    others: Vec<Arc<EndpointSlice>>,
}

impl Store {
    /// Takes an object in. Returns the one it replaces.
    pub fn put(&mut self, object: Object) -> Option<Object> {
        match object {
            Object::Ingress(new) => self.ingresses.insert(new).map(Object::Ingress),
            Object::IngressClass(new) => self.classes.insert(new).map(Object::IngressClass),
            Object::Service(new) => self.services.insert(new).map(Object::Service),
            Object::Secret(new) => self.secrets.insert(new).map(Object::Secret),
            Object::ConfigMap(new) => self.config_maps.insert(new).map(Object::ConfigMap),
            Object::Namespace(new) => self.namespaces.insert(new).map(Object::Namespace),
            Object::EndpointSlice(new) => {
                let old = self.slices.insert(new.clone());
                if let Some(old) = &old {
                    self.unlink_slice(old);
                }
                self.link_slice(new);
                old.map(Object::EndpointSlice)
            }
        }
    }

    /// Forgets an object. Returns it.
    pub fn delete(&mut self, key: &ObjectKey) -> Option<Object> {
        let name = &key.name;
        match key.kind {
            Kind::Ingress => self.ingresses.remove(name).map(Object::Ingress),
            Kind::IngressClass => self.classes.remove(name).map(Object::IngressClass),
            Kind::Service => self.services.remove(name).map(Object::Service),
            Kind::Secret => self.secrets.remove(name).map(Object::Secret),
            Kind::ConfigMap => self.config_maps.remove(name).map(Object::ConfigMap),
            Kind::Namespace => self.namespaces.remove(name).map(Object::Namespace),
            Kind::EndpointSlice => {
                let old = self.slices.remove(name)?;
                self.unlink_slice(&old);
                Some(Object::EndpointSlice(old))
            }
        }
    }

    /// An object of any kind.
    pub fn get(&self, key: &ObjectKey) -> Option<Object> {
        let name = &key.name;
        match key.kind {
            Kind::Ingress => self.ingresses.get(name).cloned().map(Object::Ingress),
            Kind::IngressClass => self.classes.get(name).cloned().map(Object::IngressClass),
            Kind::Service => self.services.get(name).cloned().map(Object::Service),
            Kind::EndpointSlice => self.slices.get(name).cloned().map(Object::EndpointSlice),
            Kind::Secret => self.secrets.get(name).cloned().map(Object::Secret),
            Kind::ConfigMap => self.config_maps.get(name).cloned().map(Object::ConfigMap),
            Kind::Namespace => self.namespaces.get(name).cloned().map(Object::Namespace),
        }
    }

    /// The uid of an object that is known.
    pub fn uid(&self, object: &ObjectRef) -> Option<&Uid> {
        let name = &object.name;
        let identity = match Kind::named(&object.kind)? {
            Kind::Ingress => &self.ingresses.get(name)?.identity,
            Kind::IngressClass => &self.classes.get(name)?.identity,
            Kind::Service => &self.services.get(name)?.identity,
            Kind::EndpointSlice => &self.slices.get(name)?.identity,
            Kind::Secret => &self.secrets.get(name)?.identity,
            Kind::ConfigMap => &self.config_maps.get(name)?.identity,
            Kind::Namespace => &self.namespaces.get(name)?.identity,
        };
        identity.uid.as_ref()
    }

    /// The Ingress of that name.
    pub fn ingress(&self, name: &NamespacedName) -> Option<&Arc<Ingress>> {
        self.ingresses.get(name)
    }

    /// All Ingresses, in no order.
    pub fn ingresses(&self) -> impl Iterator<Item = &Arc<Ingress>> {
        self.ingresses.values()
    }

    /// The IngressClass of that name.
    pub fn class(&self, name: &NamespacedName) -> Option<&Arc<IngressClass>> {
        self.classes.get(name)
    }

    /// All IngressClasses, in no order.
    pub fn classes(&self) -> impl Iterator<Item = &Arc<IngressClass>> {
        self.classes.values()
    }

    /// The Service of that name.
    pub fn service(&self, name: &NamespacedName) -> Option<&Arc<Service>> {
        self.services.get(name)
    }

    /// The EndpointSlices that name this Service, in no order.
    pub fn slices_of(&self, service: &NamespacedName) -> impl Iterator<Item = &Arc<EndpointSlice>> {
        let of = self.slices_of.get(service).into_iter();
        of.flat_map(|of| std::iter::once(&of.first).chain(&of.others))
    }

    /// The Secret of that name.
    pub fn secret(&self, name: &NamespacedName) -> Option<&Arc<Secret>> {
        self.secrets.get(name)
    }

    /// The ConfigMap of that name.
    pub fn config_map(&self, name: &NamespacedName) -> Option<&Arc<ConfigMap>> {
        self.config_maps.get(name)
    }

    /// The Namespace of that name.
    pub fn namespace(&self, name: &NamespacedName) -> Option<&Arc<Namespace>> {
        self.namespaces.get(name)
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

macro_rules! keyed {
    ($($kind:ty),*) => {
        $(impl Keyed for $kind {
            type Key = NamespacedName;

            fn key(&self) -> &NamespacedName {
                &self.name
            }
        })*
    };
}

keyed!(ConfigMap, EndpointSlice, Ingress, IngressClass, Namespace, Secret, Service);
