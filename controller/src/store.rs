//! The objects that are known now, typed and pruned to what translation reads, by key.
//!
//! Whole Kubernetes objects are never kept: a source turns each into one of the small structs below and drops
//! the rest at once, which is what lets 5,000 Ingresses with their Services fit into a few megabytes. Objects
//! are immutable and shared by `Arc`, so that a source may keep them too (to notice what did not change)
//! without a second copy.

mod by_name;
mod config_map;
mod endpoint_slice;
mod ingress;
mod ingress_class;
mod names;
mod namespace;
mod object;
mod prune;
mod secret;
mod service;

use std::collections::HashMap;
use std::sync::Arc;

use sluice_config::NamespacedName;

pub(crate) use by_name::{ByName, Named};
pub use config_map::ConfigMap;
pub use endpoint_slice::{AddressType, EndpointSlice, SliceEndpoint, SlicePort};
pub use ingress::{Ingress, IngressBackend, IngressPath, IngressRule, IngressTls, PathType, PortRef};
pub use ingress_class::IngressClass;
pub use namespace::Namespace;
pub(crate) use object::ObjectSeed;
pub use object::{Kind, Object, ObjectKey};
pub use prune::{Prune, PruneError};
pub use secret::Secret;
pub use service::{Service, ServicePort, TargetPort};

/// Everything that is known, by kind and key.
#[derive(Default)]
pub struct Store {
    ingresses: ByName<Ingress>,
    classes: ByName<IngressClass>,
    services: ByName<Service>,
    slices: ByName<EndpointSlice>,
    secrets: ByName<Secret>,
    config_maps: ByName<ConfigMap>,
    namespaces: ByName<Namespace>,
    slices_of: HashMap<NamespacedName, Vec<NamespacedName>>,
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
                let names = self.slices_of.entry(new.service.clone()).or_default();
                // Nearly every Service has one.
                names.reserve_exact(1);
                names.push(new.name.clone());
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

    /// The Ingress of that name.
    pub fn ingress(&self, name: &NamespacedName) -> Option<&Arc<Ingress>> {
        self.ingresses.get(name)
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
        self.slices_of.get(service).into_iter().flatten().filter_map(|name| self.slices.get(name))
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

    fn unlink_slice(&mut self, slice: &EndpointSlice) {
        if let Some(names) = self.slices_of.get_mut(&slice.service) {
            names.retain(|name| *name != slice.name);
            if names.is_empty() {
                self.slices_of.remove(&slice.service);
            }
        }
    }
}

macro_rules! named {
    ($($kind:ty),*) => {
        $(impl Named for $kind {
            fn name(&self) -> &NamespacedName {
                &self.name
            }
        })*
    };
}

named!(ConfigMap, EndpointSlice, Ingress, IngressClass, Namespace, Secret, Service);
