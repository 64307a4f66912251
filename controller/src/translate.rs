//! The translation: a memoised pipeline of pure functions from Kubernetes objects to the
//! configuration of the data plane.
//!
//! | node | key | reads |
//! |---|---|---|
//! | config_map | one | the ConfigMap |
//! | routes of an object | Ingress | the Ingress, its class, its namespace, the annotation limits |
//! | certificate | Secret | the Secret; its own previous value, if the Secret is unusable |
//! | resource | kind and object | the Secret or ConfigMap |
//! | flags | one | config_map; the Service and Secret that flags name |
//! | host | group, listener, host name | routes of claiming objects, Services, certificates, resources |
//! | stream services | TCP or UDP | the ConfigMap of these services |
//! | stream | TCP or UDP port | its entry, its Service, the addresses to listen on |
//! | endpoints | Service port | its EndpointSlices, and its Service if one of them lacks the port |
//!
//! Each node reads through a `View`, which records every key, including missing objects. The
//! reverse of these reads (`graph`) yields the nodes to recompute after a change, in the order of
//! the table; only different results enter the delta. Pools exist while a host or the default
//! backend uses them, endpoint sets while a pool does; certificates and resources are sent while a
//! host or the default uses them. Problems are values of nodes, too, so an edit affects only its
//! own.

mod affected;
mod app_protocol;
mod backend;
mod certificate;
pub(crate) mod declarations;
mod driver;
mod endpoint_name;
mod endpoints;
mod expression;
mod external_auth;
mod external_name;
mod firewall;
mod flags;
pub mod global_settings;
pub mod ingress;
mod ingress_counts;
mod mirror;
mod nginx_text;
mod ref_counts;
mod remote;
mod replacement;
mod replicas;
mod resource;
mod review;
mod routes;
pub mod setting;
mod snippet;
mod snippet_servers;
mod snippet_translations;
mod streams;
mod template;
mod topology;
mod unmatched;
mod update;
mod users;
pub mod value;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use sluice_config::{
    ByKey, Certificate, CertificateId, Code, EndpointSet, EndpointSetKey, GroupId, ListenerGroup,
    NamespacedName, ObjectRef, Policies, Problem, ResourceKey, Snapshot, StreamKey, TransportProtocol,
};

use crate::graph::{Graph, ReadKey, TranslationNode};
use crate::options::Options;
use crate::problem::{Finder, ProblemIndex, error};
use crate::shared::Shared;
use crate::store::{
    ClassAccess, ConfigMap, Event, Ingress, IngressChange, Kind, Object, ObjectKey, References, Resolved,
    Store,
};
use driver::Dirty;
pub use driver::Stats;
use expression::Expressions;
use ingress::class::{self, Selection};
pub use ingress_counts::IngressCounts;
use ref_counts::RefCounts;
pub use review::ReviewVerdict;
pub use snippet_translations::SnippetTranslation;
use streams::StreamOutput;
use update::ServedHost;
use users::Users;
use view::{Values, View};

/// All nodes with their values.
pub struct Translation {
    options: Options,
    store: Store,
    graph: Graph,
    dirty: Dirty,
    values: Values,
    policies: Shared<Policies>,
    /// Number of Ingresses and flags that name each certificate; its node exists while there is
    /// one.
    named_certificates: Users<NamespacedName>,
    /// Number of Ingresses that name each resource; its node exists while there is one.
    named_resources: Users<ResourceKey>,
    flags: flags::FlagsOutput,
    hosts: ByKey<ServedHost>,
    streams: BTreeMap<StreamKey, StreamOutput>,
    endpoints: ByKey<Arc<EndpointSet>>,
    /// Number of endpoint sets that need each name resolved.
    names: Users<Arc<str>>,
    /// The name of each endpoint set that needs one.
    named_sets: HashMap<EndpointSetKey, Arc<str>>,
    names_changed: bool,
    ref_counts: RefCounts,
    problem_index: ProblemIndex,
    /// Changes of Ingresses, for the writers of status and Events.
    ingresses: Vec<IngressChange>,
}

impl Translation {
    /// Creates a translation without objects; every node is to be computed.
    pub fn new(options: Options) -> Self {
        let store = Store::default();
        let (config_map, _) = global_settings::read(None);
        let values = Values {
            config_map,
            deleted_config_map: None,
            deleted_classes: HashMap::new(),
            routes: ByKey::default(),
            claims: HashMap::new(),
            class_access: ClassAccess::Listed,
            stream_services: HashMap::new(),
            certificates: HashMap::new(),
            earlier_certificates: BTreeMap::new(),
            resources: HashMap::new(),
            expressions: Expressions::default(),
            names: HashMap::new(),
        };
        let view = View::new(&store, &values, &options);
        let (flags, _) = flags::compute(&view);
        let mut named_certificates = Users::default();
        if let Some(name) = &options.default_ssl_certificate {
            named_certificates.add(name);
        }
        let mut dirty = Dirty { config_map: true, flags: true, ..Dirty::default() };
        dirty.certificates.extend(options.default_ssl_certificate.clone());
        let transports = [TransportProtocol::Tcp, TransportProtocol::Udp].into_iter();
        let named = transports.filter(|transport| streams::config_map(&options, *transport).is_some());
        dirty.stream_services.extend(named);
        Self {
            flags,
            options,
            store,
            graph: Graph::default(),
            dirty,
            values,
            policies: Shared::default(),
            named_certificates,
            named_resources: Users::default(),
            hosts: ByKey::default(),
            streams: BTreeMap::new(),
            endpoints: ByKey::default(),
            names: Users::default(),
            named_sets: HashMap::new(),
            names_changed: false,
            ref_counts: RefCounts::default(),
            problem_index: ProblemIndex::default(),
            ingresses: Vec::new(),
        }
    }

    /// Applies events and marks the affected nodes; computes nothing.
    pub fn take(&mut self, events: Vec<Event>) {
        for event in events {
            let (key, old, new) = match event {
                Event::Put(object) => {
                    let key = object.key();
                    // Keeps the stored object if it is unchanged, because nodes share it.
                    let is_new = self.store.get(&key).as_ref() != Some(&object);
                    if let Object::Ingress(ingress) = &object {
                        self.ingresses.push(IngressChange::seen(ingress, is_new));
                    }
                    if !is_new {
                        continue;
                    }
                    (key, self.store.put(object.clone()), Some(object))
                }
                Event::Delete(key) => {
                    let old = self.store.delete(&key);
                    if key.kind == Kind::Ingress {
                        self.ingresses.push(IngressChange::Gone(key.name.clone()));
                    }
                    (key, old, None)
                }
                Event::Classes(access) => {
                    if std::mem::replace(&mut self.values.class_access, access) != access {
                        self.stale(&ReadKey::ClassAccess);
                    }
                    continue;
                }
            };
            if old == new {
                continue;
            }
            self.keep_own_config_map(&key, old.as_ref(), new.as_ref());
            self.keep_class(&key, old.as_ref(), new.as_ref());
            for key in self.dirty.object(old.as_ref(), new.as_ref()) {
                self.stale(&key);
            }
            self.stale(&ReadKey::Object(key));
        }
    }

    /// Keeps the content of the program's own ConfigMap while it is deleted: its settings protect
    /// all routes. A running ingress-nginx ignores the deletion, too.
    fn keep_own_config_map(&mut self, key: &ObjectKey, old: Option<&Object>, new: Option<&Object>) {
        if !self.is_own_config_map(key) {
            return;
        }
        self.values.deleted_config_map = match (old, new) {
            (Some(Object::ConfigMap(old)), None) => Some(old.clone()),
            _ => None,
        };
    }

    /// Keeps an IngressClass of this controller while it is deleted: without its Ingresses, paths
    /// that they protect would be served by broader rules of other classes. A running ingress-nginx
    /// also serves them until they are edited.
    fn keep_class(&mut self, key: &ObjectKey, old: Option<&Object>, new: Option<&Object>) {
        if key.kind != Kind::IngressClass {
            return;
        }
        let before = self.values.deleted_classes.remove(&key.name);
        if before.is_some_and(|class| class.is_default) {
            self.stale(&ReadKey::DefaultClass);
        }
        if let (Some(Object::IngressClass(old)), None) = (old, new)
            && *old.controller == *self.options.controller_class
        {
            self.values.deleted_classes.insert(key.name.clone(), old.clone());
        }
    }

    fn is_own_config_map(&self, key: &ObjectKey) -> bool {
        key.kind == Kind::ConfigMap && self.options.configmap.as_ref() == Some(&key.name)
    }

    /// Records the certificates of an earlier state that is served until the first update. A Secret
    /// that is unusable then keeps its certificate of that state.
    pub(crate) fn take_certificates(&mut self, earlier: BTreeMap<CertificateId, Arc<Certificate>>) {
        self.values.earlier_certificates = earlier;
    }

    /// Records the result of a name resolution, if the name is still needed.
    pub(crate) fn take_name(&mut self, name: Arc<str>, resolved: Resolved) {
        if self.names.contains(&name) && self.values.names.get(&name) != Some(&resolved) {
            self.stale(&ReadKey::Name(name.clone()));
            self.values.names.insert(name, resolved);
        }
    }

    /// Returns the problem that prevents the first state: only their IngressClass decides whether
    /// Ingresses belong to this controller, and the right to list classes is missing. A right that
    /// stays missing is assumed to be withheld on purpose; everything that needs no class is then
    /// served, unless that is nothing at all.
    pub fn waits_for_classes(&mut self) -> Option<Problem> {
        let access = self.values.class_access;
        if access == ClassAccess::Listed {
            return None;
        }
        self.survey();
        if access == ClassAccess::Withheld && !self.values.routes.is_empty() {
            return None;
        }
        let view = self.view();
        let undecided =
            |ingress: &&Arc<Ingress>| matches!(class::select(&view, ingress), Selection::Undecided);
        let undecided: Vec<_> = self.store.ingresses().filter(undecided).collect();
        let first = undecided.iter().min_by_key(|ingress| &ingress.name)?;
        Some(error(
            Code::ClassUndecided,
            &ObjectRef::new("KubernetesApi", "", "ingressclasses"),
            "list, watch",
            format!(
                "not ready: without the right to list IngressClasses, the controller of the class of Ingress {} (one \
                 of {}) is unknown",
                first.name,
                undecided.len()
            ),
            format!(
                "give the ServiceAccount a ClusterRole with the rule {}; or name the class with --ingress-class and \
                 --ingress-class-by-name",
                Kind::IngressClass.rule()
            ),
        ))
    }

    /// Returns the changes of the referenced Secrets and ConfigMaps since the last call. Excludes
    /// the program's own ConfigMap, which is always watched.
    pub fn take_references(&mut self) -> References {
        let mut references = self.graph.take_references();
        references.wanted.retain(|reference| !self.is_own_config_map(&reference.object));
        references.released.retain(|object| !self.is_own_config_map(object));
        references
    }

    /// Replaces the problems of a finder other than a node.
    pub(crate) fn find(&mut self, finder: Finder, mut problems: Vec<Problem>) {
        self.identify(&mut problems);
        self.problem_index.put(finder, problems);
    }

    /// Returns the index of problems.
    pub(crate) fn problem_index(&mut self) -> &mut ProblemIndex {
        &mut self.problem_index
    }

    /// Returns all problems, sorted, without duplicates.
    pub fn problems(&self) -> Vec<Problem> {
        self.problem_index.all().map(|problem| (**problem).clone()).collect()
    }

    /// Returns the program's own ConfigMap. A deleted one is returned as it last was.
    pub(crate) fn own_config_map(&self) -> Option<&Arc<ConfigMap>> {
        self.view().own_config_map()
    }

    /// Returns the current result of the flags.
    pub(crate) fn flags(&self) -> &flags::FlagsOutput {
        &self.flags
    }

    /// Returns whether a ConfigMap that may not have been read yet can set the listen addresses.
    pub(crate) fn may_move_listeners(&self) -> bool {
        self.options.configmap.is_some()
    }

    /// Returns the changes of Ingresses since the last call, in order.
    pub(crate) fn take_ingresses(&mut self) -> Vec<IngressChange> {
        let mut changes = std::mem::take(&mut self.ingresses);
        for change in &mut changes {
            if let IngressChange::Seen { name, edited, .. } = change {
                // Routes of Ingresses of other controllers are not kept.
                let object = ObjectKey { kind: Kind::Ingress, name: name.clone() };
                *edited &= self.values.routes.get(&object).is_some();
            }
        }
        changes
    }

    /// Returns the names to resolve, if they have changed since the last call.
    pub fn take_names(&mut self) -> Option<BTreeSet<Arc<str>>> {
        std::mem::take(&mut self.names_changed).then(|| self.names.keys().cloned().collect())
    }

    /// Returns the current state, without the flag for completeness.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            complete: false,
            settings: self.flags.settings.clone(),
            certificates: self.ref_counts.certificates(),
            resources: self.ref_counts.resources(),
            endpoint_sets: self.endpoints.values().map(|set| (set.key.clone(), set.clone())).collect(),
            pools: self.ref_counts.pools(),
            hosts: self.hosts.values().map(|node| (node.host.key.clone(), node.host.clone())).collect(),
            groups: self.groups(),
        }
    }

    /// Returns all current listener groups.
    pub(crate) fn groups(&self) -> BTreeMap<GroupId, Arc<ListenerGroup>> {
        let streams = self.streams.values().filter_map(|stream| stream.group.as_ref());
        [&self.flags.group]
            .into_iter()
            .chain(self.flags.servers.values().map(|server| &server.group))
            .chain(streams)
            .map(|group| (group.id.clone(), group.clone()))
            .collect()
    }

    /// Returns whether the flags permit a listener group of an earlier state.
    pub(crate) fn may_serve(&self, group: &ListenerGroup) -> bool {
        let bind = group.binds.first().filter(|_| group.stream.is_some());
        bind.is_some_and(|bind| streams::config_map(&self.options, bind.protocol.transport()).is_some())
    }

    fn view(&self) -> View<'_> {
        View::new(&self.store, &self.values, &self.options)
    }

    fn stale(&mut self, key: &ReadKey) {
        for node in self.graph.readers(key) {
            self.dirty.add(node);
        }
    }

    /// Marks the nodes that have read a key.
    fn add_readers(&self, key: &ReadKey, dirty: &mut Dirty) {
        for node in self.graph.readers(key) {
            dirty.add(node);
        }
    }

    fn put_problems(&mut self, node: TranslationNode, mut problems: Vec<Problem>) {
        self.identify(&mut problems);
        self.problem_index.put(Finder::Node(node), problems);
    }

    /// Adds the uids of objects to problems. A node names only objects that it has read, directly
    /// or through other nodes: a recreated object makes the node stale.
    fn identify(&self, problems: &mut [Problem]) {
        for problem in problems {
            problem.uid = self.store.uid(&problem.object).cloned();
        }
    }
}
