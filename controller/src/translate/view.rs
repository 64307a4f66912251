//! What a node may look at. Everything goes through here, so that nothing is read unrecorded.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use sluice_config::{ByKey, HostKey, NamespacedName, ResourceKey};

use super::annotations::Gates;
use super::certificate::Outcome;
use super::claim::Claim;
use super::facts::Facts;
use super::graph::Key;
use super::resource;
use super::tuning::Global;
use crate::options::Options;
use crate::source::ClassAccess;
use crate::store::{
    ConfigMap, EndpointSlice, Fields, Ingress, IngressClass, Kind, Namespace, ObjectKey, Reference, Secret,
    Service, Store,
};

/// Values of nodes that other nodes read.
pub(crate) struct Values {
    /// Keys of the ConfigMap.
    pub(crate) global: Global,
    /// Ingresses that are served.
    pub(crate) facts: ByKey<Arc<Facts>>,
    /// Claims by host, sorted.
    pub(crate) claims: HashMap<HostKey, Vec<Claim>>,
    /// Whether IngressClasses could be listed.
    pub(crate) class_access: ClassAccess,
    /// Certificates that something names.
    pub(crate) certificates: HashMap<NamespacedName, Outcome>,
    /// Resources that something names.
    pub(crate) resources: HashMap<ResourceKey, resource::Outcome>,
}

/// A recording look at objects and values.
pub(crate) struct View<'a> {
    store: &'a Store,
    values: &'a Values,
    /// Flags do not change while the program runs, so they are not recorded.
    pub(crate) options: &'a Options,
    reads: RefCell<Reads>,
}

/// What a node has read.
#[derive(Default)]
pub(crate) struct Reads {
    /// Everything.
    pub(crate) keys: Vec<Key>,
    /// The Secrets and ConfigMaps among it, with the fields that it needs.
    pub(crate) references: Vec<Reference>,
}

impl<'a> View<'a> {
    /// Nothing read yet.
    pub(crate) fn new(store: &'a Store, values: &'a Values, options: &'a Options) -> Self {
        Self { store, values, options, reads: RefCell::default() }
    }

    /// What was read.
    pub(crate) fn into_reads(self) -> Reads {
        self.reads.into_inner()
    }

    pub(crate) fn ingress(&self, name: &NamespacedName) -> Option<&'a Arc<Ingress>> {
        self.object(Kind::Ingress, name);
        self.store.ingress(name)
    }

    pub(crate) fn class(&self, name: &NamespacedName) -> Option<&'a Arc<IngressClass>> {
        self.object(Kind::IngressClass, name);
        self.store.class(name)
    }

    /// Whether IngressClasses could be listed; where not, there seem to be none.
    pub(crate) fn class_access(&self) -> ClassAccess {
        self.read(Key::ClassAccess);
        self.values.class_access
    }

    /// The IngressClass that is marked as default. Of several the newest counts, as in an API server.
    pub(crate) fn default_class(&self) -> Option<&'a Arc<IngressClass>> {
        self.read(Key::DefaultClass);
        let defaults = self.store.classes().filter(|class| class.is_default);
        defaults.min_by(|a, b| b.created.cmp(&a.created).then_with(|| a.name.cmp(&b.name)))
    }

    pub(crate) fn service(&self, name: &NamespacedName) -> Option<&'a Arc<Service>> {
        self.object(Kind::Service, name);
        self.store.service(name)
    }

    pub(crate) fn slices_of(&self, service: &NamespacedName) -> Vec<&'a Arc<EndpointSlice>> {
        self.read(Key::SlicesOf(service.clone()));
        self.store.slices_of(service).collect()
    }

    /// A Secret, of which these fields are there.
    pub(crate) fn secret(&self, name: &NamespacedName, fields: Fields) -> Option<&'a Arc<Secret>> {
        self.refer(Kind::Secret, name, fields);
        self.store.secret(name)
    }

    /// A ConfigMap, of which these fields are there.
    pub(crate) fn config_map(&self, name: &NamespacedName, fields: Fields) -> Option<&'a Arc<ConfigMap>> {
        self.refer(Kind::ConfigMap, name, fields);
        self.store.config_map(name)
    }

    /// The program's own ConfigMap, which a source brings whether or not something refers to it.
    pub(crate) fn own_config_map(&self) -> Option<&'a Arc<ConfigMap>> {
        let name = self.options.configmap.as_ref()?;
        self.object(Kind::ConfigMap, name);
        self.store.config_map(name)
    }

    pub(crate) fn namespace(&self, name: &NamespacedName) -> Option<&'a Arc<Namespace>> {
        self.object(Kind::Namespace, name);
        self.store.namespace(name)
    }

    pub(crate) fn gates(&self) -> &'a Gates {
        self.read(Key::Gates);
        &self.values.global.gates
    }

    /// Why every route is closed, if they are.
    pub(crate) fn closed(&self) -> Option<&'a Arc<str>> {
        self.read(Key::Closed);
        self.values.global.closed.as_ref()
    }

    pub(crate) fn facts(&self, name: &NamespacedName) -> Option<&'a Arc<Facts>> {
        self.read(Key::Facts(name.clone()));
        self.values.facts.get(name)
    }

    /// Who claims a host, those who come first first.
    pub(crate) fn claims(&self, host: &HostKey) -> &'a [Claim] {
        self.read(Key::Claims(host.clone()));
        self.values.claims.get(host).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn certificate(&self, name: &NamespacedName) -> &'a Outcome {
        self.read(Key::Certificate(name.clone()));
        self.values.certificates.get(name).unwrap_or(&Outcome::Missing)
    }

    /// What became of a resource. A new content of one that is good is no news for those who name it.
    pub(crate) fn resource(&self, key: &ResourceKey) -> &'a resource::Outcome {
        self.read(Key::Resource(key.clone()));
        self.values.resources.get(key).unwrap_or(&resource::Outcome::Missing)
    }

    fn refer(&self, kind: Kind, name: &NamespacedName, fields: Fields) {
        self.object(kind, name);
        let object = ObjectKey { kind, name: name.clone() };
        self.reads.borrow_mut().references.push(Reference { object, fields });
    }

    fn object(&self, kind: Kind, name: &NamespacedName) {
        self.read(Key::Object(ObjectKey { kind, name: name.clone() }));
    }

    fn read(&self, key: Key) {
        self.reads.borrow_mut().keys.push(key);
    }
}
