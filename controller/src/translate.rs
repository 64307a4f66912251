//! The translation: a memoised pipeline of pure functions from objects to what the data plane serves.
//!
//! | node | key | reads |
//! |---|---|---|
//! | config_map | one | the ConfigMap |
//! | ingress model | Ingress | that Ingress, its class, its namespace, the limits of annotations |
//! | certificate | Secret | that Secret |
//! | resource | kind and object | that Secret or ConfigMap |
//! | flags | one | config_map; the Service and Secret that flags name |
//! | host | group, listener, host name | models of all Ingresses that claim it, Services, certificates, whether resources can be used |
//! | endpoints | Service port | its EndpointSlices |
//!
//! Each node reads through a `View`, which records every key, misses included; the reverse of these
//! reads (`graph`) gives the nodes to recompute when something changes, in the order of the table, and only
//! what became different goes into the delta. Pools exist while a host (or the default backend) uses them,
//! endpoint sets while a pool does, certificates and resources are sent while a host (or the default) uses them. Problems
//! are values of nodes too, so that an edit touches only its own.

mod affected;
pub mod annotations;
mod app_protocol;
mod backend;
mod certificate;
mod claim;
mod class;
mod endpoints;
mod expression;
mod external_auth;
mod external_name;
mod flags;
pub mod global_settings;
mod host;
mod ingress_model;
mod mirror;
mod nginx_text;
mod ref_counts;
mod remote;
mod replacement;
mod resource;
mod review;
pub mod setting;
mod stages;
mod template;
mod topology;
pub mod value;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use sluice_config::{
    ByKey, Code, Delta, EndpointSet, EndpointSetKey, Host, HostKey, Keyed, NamespacedName, ObjectRef,
    Policies, Problem, ResourceKey, Snapshot,
};

use crate::graph::{Graph, Key, Node, Reads};
use crate::options::Options;
use crate::problem::{Finder, ProblemIndex, error};
use crate::shared::Shared;
use crate::store::{
    ClassAccess, Event, Ingress, IngressChange, Kind, Object, ObjectKey, References, Resolved, Store,
};
use backend::Uses;
use class::Selection;
use expression::Expressions;
use ref_counts::RefCounts;
pub use review::Verdict;
use view::{Values, View};

/// How many nodes of each kind were recomputed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// ConfigMap and flags.
    pub settings: usize,
    /// Ingresses.
    pub ingresses: usize,
    /// Certificates.
    pub certificates: usize,
    /// Users, header sets and other resources.
    pub resources: usize,
    /// Hosts.
    pub hosts: usize,
    /// Pools that came or went.
    pub pools: usize,
    /// Endpoint sets.
    pub endpoints: usize,
}

impl Stats {
    /// The counts with a name for each, for metrics.
    pub fn by_kind(&self) -> [(&'static str, usize); 7] {
        [
            ("settings", self.settings),
            ("ingress", self.ingresses),
            ("certificate", self.certificates),
            ("resource", self.resources),
            ("host", self.hosts),
            ("pool", self.pools),
            ("endpoints", self.endpoints),
        ]
    }
}

/// All nodes with their values.
pub struct Translation {
    options: Options,
    store: Store,
    graph: Graph,
    dirty: Dirty,
    values: Values,
    policies: Shared<Policies>,
    /// How many Ingresses and flags name a certificate; its node exists while there is one.
    named_certificates: HashMap<NamespacedName, u32>,
    /// How many Ingresses name a resource; its node exists while there is one.
    named_resources: HashMap<ResourceKey, u32>,
    flags: flags::Output,
    hosts: ByKey<HostNode>,
    endpoints: ByKey<Arc<EndpointSet>>,
    /// How many endpoint sets need a name to be looked up.
    names: BTreeMap<Arc<str>, u32>,
    /// Endpoint sets that do, and which.
    named_sets: HashMap<EndpointSetKey, Arc<str>>,
    names_changed: bool,
    ref_counts: RefCounts,
    problem_index: ProblemIndex,
    /// What has become of Ingresses, for those who write to them.
    ingresses: Vec<IngressChange>,
}

struct HostNode {
    host: Arc<Host>,
    uses: Box<Uses>,
}

impl Keyed for HostNode {
    type Key = HostKey;

    fn key(&self) -> &HostKey {
        &self.host.key
    }
}

/// Nodes to recompute.
#[derive(Default)]
struct Dirty {
    config_map: bool,
    flags: bool,
    ingresses: HashSet<NamespacedName>,
    certificates: HashSet<NamespacedName>,
    resources: HashSet<ResourceKey>,
    hosts: HashSet<HostKey>,
    endpoints: HashSet<EndpointSetKey>,
}

impl Dirty {
    fn add(&mut self, node: &Node) {
        match node {
            Node::ConfigMap => self.config_map = true,
            Node::Flags => self.flags = true,
            Node::Ingress(name) => drop(self.ingresses.insert(name.clone())),
            Node::Certificate(name) => drop(self.certificates.insert(name.clone())),
            Node::Resource(key) => drop(self.resources.insert(key.clone())),
            Node::Host(key) => drop(self.hosts.insert(key.clone())),
            Node::Endpoints(key) => drop(self.endpoints.insert(key.clone())),
        }
    }

    /// An object has become another, or has come or gone. Gives what besides itself that changes.
    fn object(&mut self, old: Option<&Object>, new: Option<&Object>) -> Vec<Key> {
        let mut keys = Vec::new();
        for object in old.into_iter().chain(new) {
            match object {
                Object::Ingress(ingress) => drop(self.ingresses.insert(ingress.name.clone())),
                Object::IngressClass(class) if class.is_default => keys.push(Key::DefaultClass),
                Object::EndpointSlice(slice) => keys.push(Key::SlicesOf(slice.service.clone())),
                _ => {}
            }
        }
        keys
    }
}

impl Translation {
    /// Nothing known yet; everything to compute.
    pub fn new(options: Options) -> Self {
        let store = Store::default();
        let (config_map, _) = global_settings::read(None);
        let values = Values {
            config_map,
            models: ByKey::default(),
            claims: HashMap::new(),
            class_access: ClassAccess::Listed,
            certificates: HashMap::new(),
            resources: HashMap::new(),
            expressions: Expressions::default(),
            names: HashMap::new(),
        };
        let view = View::new(&store, &values, &options);
        let flags = flags::compute(&view, &values.config_map);
        let named_certificates =
            options.default_ssl_certificate.iter().map(|name| (name.clone(), 1)).collect();
        let mut dirty = Dirty { config_map: true, flags: true, ..Dirty::default() };
        dirty.certificates.extend(options.default_ssl_certificate.clone());
        Self {
            flags,
            options,
            store,
            graph: Graph::default(),
            dirty,
            values,
            policies: Shared::default(),
            named_certificates,
            named_resources: HashMap::new(),
            hosts: ByKey::default(),
            endpoints: ByKey::default(),
            names: BTreeMap::new(),
            named_sets: HashMap::new(),
            names_changed: false,
            ref_counts: RefCounts::default(),
            problem_index: ProblemIndex::default(),
            ingresses: Vec::new(),
        }
    }

    /// Takes events in and marks what they make stale; computes nothing.
    pub fn take(&mut self, events: Vec<Event>) {
        for event in events {
            let (key, old, new) = match event {
                Event::Put(object) => {
                    let key = object.key();
                    // What is as it was stays: nodes hold it too.
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
                        self.stale(&Key::ClassAccess);
                    }
                    continue;
                }
            };
            if old == new {
                continue;
            }
            for key in self.dirty.object(old.as_ref(), new.as_ref()) {
                self.stale(&key);
            }
            self.stale(&Key::Object(key));
        }
    }

    /// Takes in what a name was resolved to, if somebody still asks for it.
    pub(crate) fn take_name(&mut self, name: Arc<str>, resolved: Resolved) {
        if self.names.contains_key(&name) && self.values.names.get(&name) != Some(&resolved) {
            self.stale(&Key::Name(name.clone()));
            self.values.names.insert(name, resolved);
        }
    }

    /// Recomputes what is stale. The delta has everything but its generation and completeness.
    pub fn run(&mut self) -> (Delta, Stats) {
        let mut delta = Delta::default();
        let mut stats = Stats::default();
        self.run_config_map(&mut stats);
        self.run_facts(&mut stats);
        self.run_certificates(&mut stats);
        self.run_resources(&mut stats);
        self.run_flags(&mut delta, &mut stats);
        self.run_hosts(&mut delta, &mut stats);
        self.run_endpoints(&mut stats);
        let Self { ref_counts, values, endpoints, .. } = self;
        let certificate = |id: &_| values.certificates.get(id)?.good().cloned();
        let resource = |key: &_| values.resources.get(key)?.good().cloned();
        stats.pools = ref_counts.settle(&mut delta, certificate, resource, endpoints);
        (delta, stats)
    }

    /// Computes what tells which Secrets and ConfigMaps are referred to, and nothing that the data plane is told.
    pub fn survey(&mut self) {
        let mut stats = Stats::default();
        self.run_config_map(&mut stats);
        self.run_facts(&mut stats);
        self.run_certificates(&mut stats);
        self.run_resources(&mut stats);
    }

    /// Why the first state cannot be served yet: Ingresses of which only their IngressClass could tell whether they are
    /// ours, and the right to list those is missing. A right that is missing for long is meant to be; what can be served
    /// without it is, unless that is nothing at all.
    pub fn waits_for_classes(&mut self) -> Option<Problem> {
        let access = self.values.class_access;
        if access == ClassAccess::Listed {
            return None;
        }
        self.survey();
        if access == ClassAccess::Withheld && !self.values.models.is_empty() {
            return None;
        }
        let view = View::new(&self.store, &self.values, &self.options);
        let undecided =
            |ingress: &&Arc<Ingress>| matches!(class::select(&view, ingress), Selection::Undecided);
        let undecided: Vec<_> = self.store.ingresses().filter(undecided).collect();
        let first = undecided.iter().min_by_key(|ingress| &ingress.name)?;
        Some(error(
            Code::ClassUndecided,
            &ObjectRef::new("KubernetesApi", "", "ingressclasses"),
            "list, watch",
            format!(
                "not ready: without the right to list IngressClasses nothing tells whether the class of Ingress {} (one \
                 of {}) is ours",
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

    /// What is needed of Secrets and ConfigMaps that was not, or is no more, since this was last asked. The program's
    /// own ConfigMap is always there.
    pub fn take_references(&mut self) -> References {
        let own = |object: &ObjectKey| {
            object.kind == Kind::ConfigMap && self.options.configmap.as_ref() == Some(&object.name)
        };
        let mut references = self.graph.take_references();
        references.wanted.retain(|reference| !own(&reference.object));
        references.released.retain(|object| !own(object));
        references
    }

    /// What somebody besides the nodes finds wrong now.
    pub(crate) fn find(&mut self, finder: Finder, mut problems: Vec<Problem>) {
        self.identify(&mut problems);
        self.problem_index.put(finder, problems);
    }

    /// The problem_index of problems.
    pub(crate) fn problem_index(&mut self) -> &mut ProblemIndex {
        &mut self.problem_index
    }

    /// All problems, sorted, each once.
    pub fn problems(&self) -> Vec<Problem> {
        self.problem_index.all().map(|problem| (**problem).clone()).collect()
    }

    /// What flags amount to now.
    pub(crate) fn flags(&self) -> &flags::Output {
        &self.flags
    }

    /// Whether a ConfigMap that may not have been read yet can say where to listen.
    pub(crate) fn may_move_listeners(&self) -> bool {
        self.options.configmap.is_some()
    }

    /// What has become of Ingresses since this was last asked, in the order in which it has.
    pub(crate) fn take_ingresses(&mut self) -> Vec<IngressChange> {
        let mut changes = std::mem::take(&mut self.ingresses);
        for change in &mut changes {
            if let IngressChange::Seen { name, edited, .. } = change {
                // Of one that belongs to another controller there is no model.
                *edited &= self.values.models.get(name).is_some();
            }
        }
        changes
    }

    /// The names that are to be looked up, if they are others than when this was last asked.
    pub fn take_names(&mut self) -> Option<BTreeSet<Arc<str>>> {
        std::mem::take(&mut self.names_changed).then(|| self.names.keys().cloned().collect())
    }

    /// Everything as it is now, but for completeness.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            complete: false,
            settings: self.flags.settings.clone(),
            certificates: self.ref_counts.certificates(),
            resources: self.ref_counts.resources(),
            endpoint_sets: self.endpoints.values().map(|set| (set.key.clone(), set.clone())).collect(),
            pools: self.ref_counts.pools(),
            hosts: self.hosts.values().map(|node| (node.host.key.clone(), node.host.clone())).collect(),
            groups: [(self.flags.group.id.clone(), self.flags.group.clone())].into(),
        }
    }

    fn stale(&mut self, key: &Key) {
        for node in self.graph.readers(key) {
            self.dirty.add(node);
        }
    }

    /// Who has read a key.
    fn add_readers(&self, key: &Key, dirty: &mut Dirty) {
        for node in self.graph.readers(key) {
            dirty.add(node);
        }
    }

    /// Keeps what a node has read and found wrong.
    fn record(&mut self, node: Node, reads: Reads, problems: Vec<Problem>) {
        self.graph.record(&node, reads);
        self.put_problems(node, problems);
    }

    fn forget(&mut self, node: Node) {
        self.graph.forget(&node);
        self.put_problems(node, Vec::new());
    }

    fn put_problems(&mut self, node: Node, mut problems: Vec<Problem>) {
        self.identify(&mut problems);
        self.problem_index.put(Finder::Node(node), problems);
    }

    /// Says which objects they are. A node names only objects that it has read itself or through other nodes: an
    /// object that is made anew makes it stale.
    fn identify(&self, problems: &mut [Problem]) {
        for problem in problems {
            problem.uid = self.store.uid(&problem.object).cloned();
        }
    }
}
