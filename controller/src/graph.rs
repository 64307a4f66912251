//! The reverse index of reads, which maps a changed key to the nodes to recompute.
//!
//! A node reads through a `View`, which records every key, including missing objects. The graph
//! keeps these reads until the node is recomputed or removed. There are tens of thousands of keys,
//! so each is stored as its 64-bit hash only: if two keys have the same hash, a change of either
//! recomputes the readers of both, which is harmless. Nodes are numbered and stored in full.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;
use sluice_config::{EndpointSetKey, HostKey, NamespacedName, ResourceKey, StreamKey, TransportProtocol};

use crate::store::{DataFields, ObjectKey, Reference, References};

/// A readable input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReadKey {
    /// An object, or its absence.
    Object(ObjectKey),
    /// The EndpointSlices of a Service, as a set.
    SlicesOf(NamespacedName),
    /// Whether IngressClasses could be listed.
    ClassAccess,
    /// Which IngressClass is the default one.
    DefaultClass,
    /// The ConfigMap's limits on annotations.
    AnnotationLimits,
    /// The addresses to listen on.
    BindAddresses,
    /// An entry of the TCP or UDP services.
    StreamEntry(StreamKey),
    /// Whether every route is closed.
    Closed,
    /// Whether requests without a rule of an object are closed.
    UnmatchedClosed,
    /// Whether requests go to Services instead of endpoints by default.
    ServiceUpstream,
    /// Whether `proxy-ssl-*` annotations apply to the paths of their own Ingress only.
    EndpointTlsPerLocation,
    /// Whether IPv6 addresses of resolved names are used.
    Ipv4Names,
    /// The global authorisation service, if it depends on the host.
    AuthOfHosts,
    /// Snippets for all rules.
    Snippets,
    /// The names that `http-snippet` declares.
    HttpDeclarations,
    /// The routes of an object.
    ObjectRoutes(ObjectKey),
    /// Whether an object has TLS settings.
    HasTls(ObjectKey),
    /// Which objects claim a host.
    Claims(HostKey),
    /// The state of a certificate.
    Certificate(NamespacedName),
    /// Whether a resource is usable, and if not, why.
    Resource(ResourceKey),
    /// The addresses of a name.
    Name(Arc<str>),
}

/// A node of the translation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TranslationNode {
    /// Keys of the ConfigMap.
    ConfigMap,
    /// The objects that flags name: default backend, default certificate, listeners.
    Flags,
    /// The routes of an Ingress.
    Ingress(NamespacedName),
    /// A certificate.
    Certificate(NamespacedName),
    /// A resource.
    Resource(ResourceKey),
    /// A host.
    Host(HostKey),
    /// The entries of the TCP or UDP services.
    StreamServices(TransportProtocol),
    /// A TCP or UDP service.
    Stream(StreamKey),
    /// The endpoints of a Service port.
    Endpoints(EndpointSetKey),
}

/// The reads of a node.
#[derive(Default)]
pub(crate) struct Reads {
    /// All keys.
    pub(crate) keys: Vec<ReadKey>,
    /// The Secrets and ConfigMaps among them, with the needed fields.
    pub(crate) references: Vec<Reference>,
}

/// The edges between nodes and the keys they read.
#[derive(Default)]
pub(crate) struct Graph {
    hasher: RandomState,
    /// Numbers of nodes; the nodes themselves are in their edges.
    nodes: HashTable<u32>,
    /// By number of the node.
    edges: Vec<Edges>,
    free: Vec<u32>,
    /// By hash of the key.
    readers: HashMap<u64, Readers>,
    /// The Secrets and ConfigMaps that nodes need, by number of the node.
    references: HashMap<u32, Box<[Reference]>>,
    /// The same by object, with the fields that were last reported to the source.
    needed: HashMap<ObjectKey, Needed>,
    /// Objects whose needed fields may differ from those reported to the source.
    touched: BTreeSet<ObjectKey>,
}

/// The needed fields of a Secret or ConfigMap.
#[derive(Default)]
struct Needed {
    by: Vec<(u32, DataFields)>,
    reported: Option<DataFields>,
}

/// A node and its reads, sorted.
#[derive(Default)]
struct Edges {
    node: Option<TranslationNode>,
    reads: Box<[u64]>,
}

/// Numbers of nodes. Most keys have one reader.
enum Readers {
    One(u32),
    #[allow(clippy::box_collection, reason = "a word in place of three, for every key")]
    Many(Box<Vec<u32>>),
}

impl Graph {
    /// Replaces the reads of a node.
    pub(crate) fn record(&mut self, node: &TranslationNode, reads: Reads) {
        let number = self.number(node);
        self.refer(number, reads.references.into());
        let mut new: Vec<u64> = reads.keys.iter().map(|key| self.hasher.hash_one(key)).collect();
        new.sort_unstable();
        new.dedup();
        if *self.edges[number as usize].reads == *new {
            return;
        }
        let old = std::mem::take(&mut self.edges[number as usize].reads);
        for key in new.iter().filter(|key| old.binary_search(key).is_err()) {
            self.readers
                .entry(*key)
                .and_modify(|readers| readers.add(number))
                .or_insert(Readers::One(number));
        }
        for key in old.iter().filter(|key| new.binary_search(key).is_err()) {
            self.unread(*key, number);
        }
        self.edges[number as usize].reads = new.into();
    }

    /// Removes a node and its reads.
    pub(crate) fn forget(&mut self, node: &TranslationNode) {
        let Self { hasher, nodes, edges, .. } = self;
        let found = nodes.find_entry(hasher.hash_one(node), |number| stands_at(edges, *number, node));
        let Ok(entry) = found else { return };
        let (number, _) = entry.remove();
        self.refer(number, Box::default());
        for key in std::mem::take(&mut self.edges[number as usize]).reads {
            self.unread(key, number);
        }
        self.free.push(number);
    }

    /// Returns the nodes that have read `key`.
    pub(crate) fn readers(&self, key: &ReadKey) -> impl Iterator<Item = &TranslationNode> {
        let readers = self.readers.get(&self.hasher.hash_one(key)).map_or(&[][..], Readers::as_slice);
        readers.iter().filter_map(|number| self.edges[*number as usize].node.as_ref())
    }

    fn number(&mut self, node: &TranslationNode) -> u32 {
        let Self { hasher, nodes, edges, free, .. } = self;
        let hash = hasher.hash_one(node);
        if let Some(number) = nodes.find(hash, |number| stands_at(edges, *number, node)) {
            return *number;
        }
        let number = free.pop().unwrap_or_else(|| {
            edges.push(Edges::default());
            // Nodes are bounded by memory long before 2^32 of them.
            (edges.len() - 1) as u32
        });
        edges[number as usize].node = Some(node.clone());
        nodes.insert_unique(hash, number, |number| {
            // Every number in the table belongs to a node.
            edges[*number as usize].node.as_ref().map_or(0, |node| hasher.hash_one(node))
        });
        number
    }

    fn unread(&mut self, key: u64, number: u32) {
        if let Some(readers) = self.readers.get_mut(&key)
            && readers.remove(number)
        {
            self.readers.remove(&key);
        }
    }

    /// Replaces the Secrets and ConfigMaps that a node needs.
    fn refer(&mut self, number: u32, new: Box<[Reference]>) {
        let old = match new.is_empty() {
            true => self.references.remove(&number),
            false => self.references.insert(number, new.clone()),
        };
        if old.as_deref().unwrap_or_default() == &*new {
            return;
        }
        for Reference { object, .. } in old.iter().flatten() {
            if let Some(needed) = self.needed.get_mut(object) {
                needed.by.retain(|(reader, _)| *reader != number);
            }
            self.touched.insert(object.clone());
        }
        for Reference { object, fields } in new {
            self.touched.insert(object.clone());
            self.needed.entry(object).or_default().by.push((number, fields));
        }
    }

    /// Returns the changes of the needed Secrets and ConfigMaps since the last call.
    pub(crate) fn take_references(&mut self) -> References {
        let mut references = References::default();
        for object in std::mem::take(&mut self.touched) {
            let Some(needed) = self.needed.get_mut(&object) else { continue };
            let fields = needed.by.iter().map(|(_, fields)| fields.clone()).reduce(|all, one| all.and(&one));
            let before = std::mem::replace(&mut needed.reported, fields.clone());
            if fields.is_none() {
                self.needed.remove(&object);
            }
            match fields {
                Some(fields) if before.as_ref() != Some(&fields) => {
                    references.wanted.push(Reference { object, fields });
                }
                None if before.is_some() => references.released.push(object),
                _ => {}
            }
        }
        references
    }
}

fn stands_at(edges: &[Edges], number: u32, node: &TranslationNode) -> bool {
    edges[number as usize].node.as_ref() == Some(node)
}

impl Readers {
    fn as_slice(&self) -> &[u32] {
        match self {
            Self::One(number) => std::slice::from_ref(number),
            Self::Many(numbers) => numbers,
        }
    }

    fn add(&mut self, number: u32) {
        match self {
            Self::One(first) => *self = Self::Many(Box::new(vec![*first, number])),
            Self::Many(numbers) => numbers.push(number),
        }
    }

    /// Removes a reader. Returns whether none is left.
    fn remove(&mut self, number: u32) -> bool {
        match self {
            Self::One(only) => *only == number,
            Self::Many(numbers) => {
                if let Some(at) = numbers.iter().position(|other| *other == number) {
                    numbers.swap_remove(at);
                }
                numbers.is_empty()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Kind;

    fn node(name: &str) -> TranslationNode {
        TranslationNode::Ingress(NamespacedName::new("n", name))
    }

    fn key(name: &str) -> ReadKey {
        ReadKey::ObjectRoutes(object(name))
    }

    fn readers(graph: &Graph, name: &str) -> Vec<TranslationNode> {
        let mut found: Vec<TranslationNode> = graph.readers(&key(name)).cloned().collect();
        found.sort_by_key(|node| format!("{node:?}"));
        found
    }

    fn reads(keys: Vec<ReadKey>) -> Reads {
        Reads { keys, references: Vec::new() }
    }

    fn object(name: &str) -> ObjectKey {
        ObjectKey { kind: Kind::Secret, name: NamespacedName::new("n", name) }
    }

    fn needs(references: &[(&str, &[&'static str])]) -> Reads {
        let reference = |(name, fields): &(&str, &[&'static str])| Reference {
            object: object(name),
            fields: DataFields::named(fields),
        };
        Reads { keys: Vec::new(), references: references.iter().map(reference).collect() }
    }

    #[test]
    fn a_source_learns_of_the_first_and_last_reader_of_a_secret() {
        let mut graph = Graph::default();
        graph.record(&node("a"), needs(&[("s", &["x"]), ("s", &["x"])]));
        graph.record(&node("b"), needs(&[("s", &["x"]), ("t", &["x"])]));
        let wanted = needs(&[("s", &["x"]), ("t", &["x"])]).references;
        assert_eq!(graph.take_references(), References { wanted, released: Vec::new() });
        graph.record(&node("a"), reads(vec![key("x")]));
        assert_eq!(graph.take_references(), References::default());
        graph.forget(&node("b"));
        graph.record(&node("a"), needs(&[("t", &["x"])]));
        let released = vec![object("s")];
        assert_eq!(graph.take_references(), References { wanted: Vec::new(), released });
        graph.forget(&node("a"));
        graph.record(&node("c"), needs(&[("t", &["x"])]));
        assert_eq!(graph.take_references(), References::default(), "went and came in between");
        graph.record(&node("d"), needs(&[("u", &["x"])]));
        graph.forget(&node("d"));
        assert_eq!(graph.take_references(), References::default(), "came and went in between");
    }

    #[test]
    fn a_source_learns_of_other_needed_fields() {
        let mut graph = Graph::default();
        graph.record(&node("a"), needs(&[("s", &["x"])]));
        graph.take_references();
        graph.record(&node("b"), needs(&[("s", &["y"])]));
        assert_eq!(graph.take_references().wanted, needs(&[("s", &["x", "y"])]).references);
        graph.record(&node("c"), needs(&[("s", &["y"])]));
        assert_eq!(graph.take_references(), References::default());
        graph.forget(&node("a"));
        assert_eq!(graph.take_references().wanted, needs(&[("s", &["y"])]).references);
    }

    #[test]
    fn readers_are_those_of_the_last_computation() {
        let mut graph = Graph::default();
        graph.record(&node("a"), reads(vec![key("x"), key("y"), key("x")]));
        graph.record(&node("b"), reads(vec![key("y")]));
        assert_eq!(readers(&graph, "y"), [node("a"), node("b")]);
        graph.record(&node("a"), reads(vec![key("z")]));
        assert_eq!(readers(&graph, "x"), []);
        assert_eq!(readers(&graph, "y"), [node("b")]);
        assert_eq!(readers(&graph, "z"), [node("a")]);
        graph.forget(&node("b"));
        assert_eq!(readers(&graph, "y"), []);
        graph.record(&node("c"), reads(vec![key("q"), key("z")]));
        assert_eq!(readers(&graph, "z"), [node("a"), node("c")]);
        assert_eq!(graph.edges.len(), 2, "numbers are given out again");
        graph.forget(&node("a"));
        graph.forget(&node("c"));
        assert!(graph.readers.is_empty() && graph.nodes.is_empty());
    }
}
