//! The translation: a memoised pipeline of pure functions from objects to what the data plane serves.
//!
//! | node | key | reads |
//! |---|---|---|
//! | global | one | the ConfigMap |
//! | facts | Ingress | that Ingress, its class, its namespace, the gates for annotations |
//! | certificate | Secret | that Secret |
//! | flags | one | global; the Service and Secret that flags name |
//! | host | host name | facts of all Ingresses that claim it, Services, certificates |
//! | endpoints | Service port | its EndpointSlices |
//!
//! Each node reads through a `View`, which records every key, misses included; the reverse of these
//! reads (`graph`) gives the nodes to recompute when something changes, in the order of the table, and only
//! what became different goes into the delta. Pools exist while a host (or the default backend) uses them,
//! endpoint sets while a pool does, certificates are sent while a host (or the default) uses them. Problems
//! are values of nodes too, so that an edit touches only its own.

pub mod annotations;
mod backend;
mod certificate;
mod class;
mod endpoints;
mod facts;
mod flags;
mod graph;
mod host;
mod ledger;
pub mod selector;
pub mod setting;
mod stages;
pub mod tuning;
pub mod value;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use sluice_config::{
    ByKey, Delta, EndpointSet, EndpointSetKey, Host, HostPattern, Keyed, NamespacedName, ObjectRef, Policies,
    Problem, Snapshot,
};

use crate::options::Options;
use crate::problem::error;
use crate::shared::Shared;
use crate::source::{ClassAccess, Event, References};
use crate::store::{Ingress, Object, Store};
use backend::Uses;
use class::Selection;
use graph::{Graph, Key, Node};
use ledger::Ledger;
use view::{Values, View};

/// How many nodes of each kind were recomputed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// ConfigMap and flags.
    pub tuning: usize,
    /// Ingresses.
    pub facts: usize,
    /// Certificates.
    pub certificates: usize,
    /// Hosts.
    pub hosts: usize,
    /// Pools that came or went.
    pub pools: usize,
    /// Endpoint sets.
    pub endpoints: usize,
}

impl Stats {
    /// The counts with a name for each, for metrics.
    pub fn by_kind(&self) -> [(&'static str, usize); 6] {
        [
            ("tuning", self.tuning),
            ("facts", self.facts),
            ("certificate", self.certificates),
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
    keys: tuning::Keys,
    values: Values,
    policies: Shared<Policies>,
    /// How many Ingresses and flags name a certificate; its node exists while there is one.
    named_certificates: HashMap<NamespacedName, u32>,
    flags: flags::Output,
    hosts: ByKey<HostNode>,
    endpoints: ByKey<Arc<EndpointSet>>,
    ledger: Ledger,
    problems: HashMap<Node, Box<[Problem]>>,
    problems_changed: bool,
}

struct HostNode {
    host: Arc<Host>,
    uses: Box<Uses>,
}

impl Keyed for HostNode {
    type Key = HostPattern;

    fn key(&self) -> &HostPattern {
        &self.host.key.pattern
    }
}

/// Nodes to recompute.
#[derive(Default)]
struct Dirty {
    global: bool,
    flags: bool,
    facts: HashSet<NamespacedName>,
    certificates: HashSet<NamespacedName>,
    hosts: HashSet<HostPattern>,
    endpoints: HashSet<EndpointSetKey>,
}

impl Dirty {
    fn add(&mut self, node: &Node) {
        match node {
            Node::Global => self.global = true,
            Node::Flags => self.flags = true,
            Node::Facts(name) => drop(self.facts.insert(name.clone())),
            Node::Certificate(name) => drop(self.certificates.insert(name.clone())),
            Node::Host(pattern) => drop(self.hosts.insert(pattern.clone())),
            Node::Endpoints(key) => drop(self.endpoints.insert(key.clone())),
        }
    }
}

impl Translation {
    /// Nothing known yet; everything to compute.
    pub fn new(options: Options) -> Self {
        let store = Store::default();
        let (global, _) = tuning::Keys::default().read(None);
        let values = Values {
            global,
            facts: ByKey::default(),
            claims: HashMap::new(),
            class_access: ClassAccess::Listed,
            certificates: HashMap::new(),
        };
        let view = View::new(&store, &values, &options);
        let flags = flags::compute(&view, &values.global);
        let named_certificates =
            options.default_ssl_certificate.iter().map(|name| (name.clone(), 1)).collect();
        let mut dirty = Dirty { global: true, flags: true, ..Dirty::default() };
        dirty.certificates.extend(options.default_ssl_certificate.clone());
        Self {
            flags,
            options,
            store,
            graph: Graph::default(),
            dirty,
            keys: tuning::Keys::default(),
            values,
            policies: Shared::default(),
            named_certificates,
            hosts: ByKey::default(),
            endpoints: ByKey::default(),
            ledger: Ledger::default(),
            problems: HashMap::new(),
            problems_changed: false,
        }
    }

    /// Takes events in and marks what they make stale; computes nothing.
    pub fn take(&mut self, events: Vec<Event>) {
        for event in events {
            let (key, old, new) = match event {
                Event::Put(object) => {
                    let key = object.key();
                    (key, self.store.put(object.clone()), Some(object))
                }
                Event::Delete(key) => {
                    let old = self.store.delete(&key);
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
            for object in old.iter().chain(&new) {
                match object {
                    Object::Ingress(ingress) => drop(self.dirty.facts.insert(ingress.name.clone())),
                    Object::IngressClass(class) if class.is_default => self.stale(&Key::DefaultClass),
                    Object::EndpointSlice(slice) => self.stale(&Key::SlicesOf(slice.service.clone())),
                    _ => {}
                }
            }
            self.stale(&Key::Object(key));
        }
    }

    /// Recomputes what is stale. The delta has everything but its generation and completeness.
    pub fn run(&mut self) -> (Delta, Stats) {
        let mut delta = Delta::default();
        let mut stats = Stats::default();
        self.run_global(&mut stats);
        self.run_facts(&mut stats);
        self.run_certificates(&mut stats);
        self.run_flags(&mut delta, &mut stats);
        self.run_hosts(&mut delta, &mut stats);
        self.run_endpoints(&mut stats);
        let Self { ledger, values, endpoints, .. } = self;
        stats.pools = ledger.settle(&mut delta, |id| values.certificates.get(id)?.good().cloned(), endpoints);
        (delta, stats)
    }

    /// Computes what tells which Secrets are referred to, and nothing that the data plane is told.
    pub fn survey(&mut self) {
        let mut stats = Stats::default();
        self.run_global(&mut stats);
        self.run_facts(&mut stats);
        self.run_certificates(&mut stats);
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
        if access == ClassAccess::Withheld && !self.values.facts.is_empty() {
            return None;
        }
        let view = View::new(&self.store, &self.values, &self.options);
        let undecided =
            |ingress: &&Arc<Ingress>| matches!(class::select(&view, ingress), Selection::Undecided);
        let undecided: Vec<_> = self.store.ingresses().filter(undecided).collect();
        let first = undecided.iter().min_by_key(|ingress| &ingress.name)?;
        Some(error(
            &ObjectRef::new("KubernetesApi", "", "ingressclasses"),
            "list, watch",
            format!(
                "not ready: without the right to list IngressClasses nothing tells whether the class of Ingress {} (one \
                 of {}) is ours",
                first.name,
                undecided.len()
            ),
            "give the ServiceAccount a ClusterRole with the rule {apiGroups: [\"networking.k8s.io\"], resources: \
             [\"ingressclasses\"], verbs: [\"list\", \"watch\"]}; or name the class with --ingress-class and \
             --ingress-class-by-name",
        ))
    }

    /// Which Secrets came to be referred to, and which are no more, since this was last asked.
    pub fn take_references(&mut self) -> References {
        self.graph.take_references()
    }

    /// Whether problems came or went since this was last asked.
    pub fn take_problems_changed(&mut self) -> bool {
        std::mem::take(&mut self.problems_changed)
    }

    /// All problems, sorted, each once.
    pub fn problems(&self) -> Vec<Problem> {
        let all = self.problems.values().flat_map(|problems| problems.iter());
        let sorted: BTreeSet<&Problem> = all.collect();
        sorted.into_iter().cloned().collect()
    }

    /// What flags amount to now.
    pub(crate) fn flags(&self) -> &flags::Output {
        &self.flags
    }

    /// Whether a ConfigMap that may not have been read yet can say where to listen.
    pub(crate) fn may_move_listeners(&self) -> bool {
        self.options.configmap.is_some()
    }

    /// Everything as it is now, but for completeness.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            complete: false,
            tuning: self.flags.tuning.clone(),
            certificates: self.ledger.certificates(),
            resources: BTreeMap::new(),
            endpoint_sets: self.endpoints.values().map(|set| (set.key.clone(), set.clone())).collect(),
            pools: self.ledger.pools(),
            hosts: self.hosts.values().map(|node| (node.host.key.clone(), node.host.clone())).collect(),
            groups: [(self.flags.group.id.clone(), self.flags.group.clone())].into(),
        }
    }

    fn stale(&mut self, key: &Key) {
        for node in self.graph.readers(key) {
            self.dirty.add(node);
        }
    }

    /// Keeps what a node has read and found wrong.
    fn record(&mut self, node: Node, reads: Vec<Key>, problems: Vec<Problem>) {
        self.graph.record(&node, reads);
        self.put_problems(node, problems);
    }

    fn forget(&mut self, node: Node) {
        self.graph.forget(&node);
        self.put_problems(node, Vec::new());
    }

    fn put_problems(&mut self, node: Node, problems: Vec<Problem>) {
        let old = if problems.is_empty() {
            self.problems.remove(&node)
        } else {
            self.problems.insert(node.clone(), problems.into())
        };
        self.problems_changed |= old.as_ref() != self.problems.get(&node);
    }
}
