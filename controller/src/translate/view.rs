//! The inputs of a node. All reads go through this view, which records them.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use sluice_config::{
    ByKey, Certificate, CertificateId, HostKey, NamespacedName, ObjectRef, ResourceKey, StreamKey,
    TransportProtocol,
};

use super::certificate::CertificateState;
use super::declarations::HttpDeclarations;
use super::expression::Expressions;
use super::external_auth::AuthSettings;
use super::global_settings::{ConfigMapSettings, GlobalSnippets};
use super::resource::ResourceState;
use super::routes::claim::Claim;
use super::routes::{ObjectRoutes, has_tls};
use super::setting::{AnnotationLimits, annotation_field};
use super::streams::{StreamEntry, StreamServices};
use crate::graph::{ReadKey, Reads};
use crate::options::Options;
use crate::store::{
    ClassAccess, ConfigMap, DataFields, EndpointSlice, Ingress, IngressClass, Kind, Namespace, Node, Object,
    ObjectKey, Reference, Resolved, Secret, Service, Store,
};

/// Values of nodes that other nodes read.
pub(crate) struct Values {
    /// Keys of the ConfigMap.
    pub(crate) config_map: ConfigMapSettings,
    /// The program's own ConfigMap as it last was, if it was deleted.
    pub(crate) deleted_config_map: Option<Arc<ConfigMap>>,
    /// Deleted IngressClasses of this controller, as they last were.
    pub(crate) deleted_classes: HashMap<NamespacedName, Arc<IngressClass>>,
    /// Routes of the objects that are served.
    pub(crate) routes: ByKey<Arc<ObjectRoutes>>,
    /// Claims by host, sorted.
    pub(crate) claims: HashMap<HostKey, Vec<Claim>>,
    /// TCP and UDP services.
    pub(crate) stream_services: HashMap<TransportProtocol, StreamServices>,
    /// Whether IngressClasses could be listed.
    pub(crate) class_access: ClassAccess,
    /// Certificates that objects or flags name.
    pub(crate) certificates: HashMap<NamespacedName, CertificateState>,
    /// Certificates of an earlier state that is served until the first update.
    pub(crate) earlier_certificates: BTreeMap<CertificateId, Arc<Certificate>>,
    /// Resources that objects name.
    pub(crate) resources: HashMap<ResourceKey, ResourceState>,
    /// Cache of regular expressions. Not a node value: it depends on nothing.
    pub(crate) expressions: Expressions,
    /// Results of name resolution.
    pub(crate) names: HashMap<Arc<str>, Resolved>,
}

/// The differences from the current state that a review assumes.
pub(crate) struct Overlay {
    /// The object.
    pub(crate) object: Object,
    pub(crate) key: ObjectKey,
    pub(crate) config_map: Option<ConfigMapSettings>,
    pub(crate) routes: HashMap<ObjectKey, Option<Arc<ObjectRoutes>>>,
    pub(crate) claims: HashMap<HostKey, Vec<Claim>>,
    pub(crate) stream_services: HashMap<TransportProtocol, StreamServices>,
    pub(crate) certificates: HashMap<NamespacedName, CertificateState>,
    pub(crate) resources: HashMap<ResourceKey, ResourceState>,
}

/// A recording view of objects and values.
pub(crate) struct View<'a> {
    store: &'a Store,
    values: &'a Values,
    /// Flags do not change while the program runs, so they are not recorded.
    pub(crate) options: &'a Options,
    overlay: Option<&'a Overlay>,
    reads: RefCell<Reads>,
}

impl<'a> View<'a> {
    /// Creates a view without reads.
    pub(crate) fn new(store: &'a Store, values: &'a Values, options: &'a Options) -> Self {
        Self { store, values, options, overlay: None, reads: RefCell::default() }
    }

    /// Creates a view with an overlay, without reads.
    pub(crate) fn with_overlay(
        store: &'a Store,
        values: &'a Values,
        options: &'a Options,
        overlay: &'a Overlay,
    ) -> Self {
        Self { overlay: Some(overlay), ..Self::new(store, values, options) }
    }

    /// Returns the cache of regular expressions, which depends on nothing.
    pub(crate) fn expressions(&self) -> &'a Expressions {
        &self.values.expressions
    }

    /// Returns the recorded reads.
    pub(crate) fn into_reads(self) -> Reads {
        self.reads.into_inner()
    }

    /// Returns an Ingress.
    pub(crate) fn ingress(&self, name: &NamespacedName) -> Option<&'a Arc<Ingress>> {
        self.object(Kind::Ingress, name);
        match self.overlay_object(Kind::Ingress, name) {
            Some(Object::Ingress(object)) => Some(object),
            _ => self.store.ingress(name),
        }
    }

    /// Returns an IngressClass.
    pub(crate) fn class(&self, name: &NamespacedName) -> Option<&'a Arc<IngressClass>> {
        self.object(Kind::IngressClass, name);
        match self.overlay_object(Kind::IngressClass, name) {
            Some(Object::IngressClass(object)) => Some(object),
            _ => self.store.class(name),
        }
    }

    /// Returns whether an IngressClass was one of this controller until it was deleted.
    pub(crate) fn is_deleted_class(&self, name: &NamespacedName) -> bool {
        self.object(Kind::IngressClass, name);
        self.values.deleted_classes.contains_key(name)
    }

    /// Returns whether IngressClasses could be listed; if not, none are visible.
    pub(crate) fn class_access(&self) -> ClassAccess {
        self.read(ReadKey::ClassAccess);
        self.values.class_access
    }

    /// Returns the default IngressClass. Of several the newest applies, as in an API server. A
    /// deleted one applies while there is no other.
    pub(crate) fn default_class(&self) -> Option<&'a Arc<IngressClass>> {
        self.read(ReadKey::DefaultClass);
        let overlay = match self.overlay.map(|overlay| &overlay.object) {
            Some(Object::IngressClass(class)) => Some(class),
            _ => None,
        };
        let is_other = |class: &&Arc<IngressClass>| overlay.is_none_or(|new| new.name != class.name);
        let present = self.store.classes().filter(is_other).chain(overlay);
        let deleted = self.values.deleted_classes.values().filter(is_other);
        newest_default(present).or_else(|| newest_default(deleted))
    }

    /// Returns a Service.
    pub(crate) fn service(&self, name: &NamespacedName) -> Option<&'a Arc<Service>> {
        self.object(Kind::Service, name);
        match self.overlay_object(Kind::Service, name) {
            Some(Object::Service(object)) => Some(object),
            _ => self.store.service(name),
        }
    }

    /// Returns the EndpointSlices of a Service.
    pub(crate) fn slices_of(&self, service: &NamespacedName) -> Vec<&'a Arc<EndpointSlice>> {
        self.read(ReadKey::SlicesOf(service.clone()));
        let overlay = match self.overlay.map(|overlay| &overlay.object) {
            Some(Object::EndpointSlice(slice)) => Some(slice),
            _ => None,
        };
        let others = self.store.slices_of(service);
        let others = others.filter(|slice| overlay.is_none_or(|new| new.name != slice.name));
        others.chain(overlay.filter(|new| new.service == *service)).collect()
    }

    /// Returns a Secret, of which these fields are needed. `None` while it is stored with fewer:
    /// another use needed only those, and the source is reading it again. A needed field would seem
    /// absent, such as a list of revoked certificates.
    pub(crate) fn secret(&self, name: &NamespacedName, fields: DataFields) -> Option<&'a Arc<Secret>> {
        let secret = match self.overlay_object(Kind::Secret, name) {
            Some(Object::Secret(object)) => Some(object),
            _ => self.store.secret(name),
        };
        let secret = secret.filter(|secret| secret.fields.covers(&fields));
        self.refer(Kind::Secret, name, fields);
        secret
    }

    /// Returns a ConfigMap, of which these fields are needed. `None` while it is stored with fewer.
    pub(crate) fn config_map(&self, name: &NamespacedName, fields: DataFields) -> Option<&'a Arc<ConfigMap>> {
        let config_map = self.any_config_map(name).filter(|map| map.fields.covers(&fields));
        self.refer(Kind::ConfigMap, name, fields);
        config_map
    }

    /// Returns the program's own ConfigMap, which the source always sends. A deleted one is
    /// returned as it last was.
    pub(crate) fn own_config_map(&self) -> Option<&'a Arc<ConfigMap>> {
        let name = self.options.configmap.as_ref()?;
        self.object(Kind::ConfigMap, name);
        self.any_config_map(name).or(self.values.deleted_config_map.as_ref())
    }

    /// Returns whether a ConfigMap that the source always sends exists.
    pub(crate) fn has_config_map(&self, name: &NamespacedName) -> bool {
        self.object(Kind::ConfigMap, name);
        self.any_config_map(name).is_some()
    }

    fn any_config_map(&self, name: &NamespacedName) -> Option<&'a Arc<ConfigMap>> {
        match self.overlay_object(Kind::ConfigMap, name) {
            Some(Object::ConfigMap(object)) => Some(object),
            _ => self.store.config_map(name),
        }
    }

    /// Returns a Namespace.
    pub(crate) fn namespace(&self, name: &NamespacedName) -> Option<&'a Arc<Namespace>> {
        self.object(Kind::Namespace, name);
        match self.overlay_object(Kind::Namespace, name) {
            Some(Object::Namespace(object)) => Some(object),
            _ => self.store.namespace(name),
        }
    }

    /// Returns a Node of the cluster.
    pub(crate) fn node(&self, name: &NamespacedName) -> Option<&'a Arc<Node>> {
        self.object(Kind::Node, name);
        match self.overlay_object(Kind::Node, name) {
            Some(Object::Node(object)) => Some(object),
            _ => self.store.node(name),
        }
    }

    /// Returns the ConfigMap's limits on annotations.
    pub(crate) fn annotation_limits(&self) -> &'a AnnotationLimits {
        self.read(ReadKey::AnnotationLimits);
        &self.config_map_settings().annotation_limits
    }

    /// Returns why every route is closed, if they are.
    pub(crate) fn closed(&self) -> Option<&'a Arc<str>> {
        self.read(ReadKey::Closed);
        self.config_map_settings().closed.as_ref()
    }

    /// Returns why requests without a rule of an object are closed, if they are.
    pub(crate) fn unmatched_closed(&self) -> Option<&'a Arc<str>> {
        self.read(ReadKey::UnmatchedClosed);
        self.config_map_settings().unmatched_closed.as_ref()
    }

    /// Returns whether requests go to Services instead of endpoints by default.
    pub(crate) fn service_upstream(&self) -> bool {
        self.read(ReadKey::ServiceUpstream);
        self.config_map_settings().service_upstream
    }

    /// Returns whether the `proxy-ssl-*` annotations of an Ingress apply to its own paths only.
    pub(crate) fn endpoint_tls_per_location(&self) -> bool {
        self.read(ReadKey::EndpointTlsPerLocation);
        self.config_map_settings().endpoint_tls_per_location
    }

    /// Returns whether only IPv4 addresses of resolved names are used.
    pub(crate) fn ipv4_names(&self) -> bool {
        self.read(ReadKey::Ipv4Names);
        self.config_map_settings().ipv4_names
    }

    /// Returns the global authorisation service, if it depends on the host.
    pub(crate) fn auth_of_hosts(&self) -> Option<&'a AuthSettings> {
        self.read(ReadKey::AuthOfHosts);
        self.config_map_settings().auth_of_hosts()
    }

    /// Returns the typed directives of snippets for all rules.
    pub(crate) fn snippets(&self) -> &'a GlobalSnippets {
        self.read(ReadKey::Snippets);
        &self.config_map_settings().snippets
    }

    /// Returns the names that `http-snippet` declares for other texts.
    pub(crate) fn http_declarations(&self) -> &'a HttpDeclarations {
        self.read(ReadKey::HttpDeclarations);
        self.config_map_settings().snippets.declarations()
    }

    /// Returns the routes of an object; `None` if this controller does not serve it.
    pub(crate) fn object_routes(&self, object: &ObjectKey) -> Option<&'a Arc<ObjectRoutes>> {
        self.read(ReadKey::ObjectRoutes(object.clone()));
        self.routes_of(object)
    }

    /// Returns whether an object that is served has TLS settings.
    pub(crate) fn has_tls(&self, object: &ObjectKey) -> bool {
        self.read(ReadKey::HasTls(object.clone()));
        has_tls(self.routes_of(object))
    }

    fn routes_of(&self, object: &ObjectKey) -> Option<&'a Arc<ObjectRoutes>> {
        match self.overlay.and_then(|overlay| overlay.routes.get(object)) {
            Some(routes) => routes.as_ref(),
            None => self.values.routes.get(object),
        }
    }

    /// Returns the field of an object's setting for problems.
    pub(crate) fn setting_field(&self, object: &ObjectRef, setting: &str) -> String {
        match *object.kind == *Kind::Ingress.as_str() {
            true => annotation_field(&self.options.annotations_prefix, setting),
            false => setting.to_owned(),
        }
    }

    /// Returns the claims of a host in order of precedence.
    pub(crate) fn claims(&self, host: &HostKey) -> &'a [Claim] {
        self.read(ReadKey::Claims(host.clone()));
        let overlay = self.overlay.and_then(|overlay| overlay.claims.get(host));
        overlay.or_else(|| self.values.claims.get(host)).map_or(&[], Vec::as_slice)
    }

    /// Returns an entry of the TCP or UDP services.
    pub(crate) fn stream_entry(&self, key: &StreamKey) -> Option<&'a StreamEntry> {
        self.read(ReadKey::StreamEntry(*key));
        let overlay = self.overlay.and_then(|overlay| overlay.stream_services.get(&key.transport));
        overlay.or_else(|| self.values.stream_services.get(&key.transport))?.get(&key.port)
    }

    /// Returns the addresses to listen on.
    pub(crate) fn bind_addresses(&self) -> &'a [IpAddr] {
        self.read(ReadKey::BindAddresses);
        &self.config_map_settings().addresses
    }

    /// Returns the state of the Secret that is named as a certificate.
    pub(crate) fn certificate(&self, name: &NamespacedName) -> &'a CertificateState {
        self.read(ReadKey::Certificate(name.clone()));
        let overlay = self.overlay.and_then(|overlay| overlay.certificates.get(name));
        overlay.or_else(|| self.values.certificates.get(name)).unwrap_or(&CertificateState::Missing)
    }

    /// Returns the certificate that is served for a Secret, for the node that computes the next
    /// one.
    pub(crate) fn certificate_in_force(&self, name: &NamespacedName) -> Option<&'a Arc<Certificate>> {
        let known = self.values.certificates.get(name).and_then(CertificateState::good);
        known.or_else(|| self.values.earlier_certificates.get(name))
    }

    /// Returns the state of a resource. A new content of a usable one does not recompute its
    /// readers.
    pub(crate) fn resource(&self, key: &ResourceKey) -> &'a ResourceState {
        self.read(ReadKey::Resource(key.clone()));
        let overlay = self.overlay.and_then(|overlay| overlay.resources.get(key));
        overlay.or_else(|| self.values.resources.get(key)).unwrap_or(&ResourceState::Missing)
    }

    /// Returns the keys of the ConfigMap. Only the node of flags reads and depends on all of them.
    pub(crate) fn config_map_settings(&self) -> &'a ConfigMapSettings {
        let overlay = self.overlay.and_then(|overlay| overlay.config_map.as_ref());
        overlay.unwrap_or(&self.values.config_map)
    }

    /// Returns the object that a review assumes, if it is this one.
    fn overlay_object(&self, kind: Kind, name: &NamespacedName) -> Option<&'a Object> {
        let overlay = self.overlay?;
        (overlay.key.kind == kind && overlay.key.name == *name).then_some(&overlay.object)
    }

    /// Records a Secret or ConfigMap, and which of its fields are needed.
    fn refer(&self, kind: Kind, name: &NamespacedName, fields: DataFields) {
        self.object(kind, name);
        let object = ObjectKey { kind, name: name.clone() };
        self.reads.borrow_mut().references.push(Reference { object, fields });
    }

    /// Returns the result of resolving a name; `None` before the first one.
    pub(crate) fn resolved(&self, name: &Arc<str>) -> Option<&'a Resolved> {
        self.read(ReadKey::Name(name.clone()));
        self.values.names.get(name)
    }

    fn object(&self, kind: Kind, name: &NamespacedName) {
        self.read(ReadKey::Object(ObjectKey { kind, name: name.clone() }));
    }

    fn read(&self, key: ReadKey) {
        self.reads.borrow_mut().keys.push(key);
    }
}

fn newest_default<'a>(classes: impl Iterator<Item = &'a Arc<IngressClass>>) -> Option<&'a Arc<IngressClass>> {
    let defaults = classes.filter(|class| class.is_default);
    defaults.min_by(|a, b| b.created.cmp(&a.created).then_with(|| a.name.cmp(&b.name)))
}
