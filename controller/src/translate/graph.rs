//! Who read what: the reverse index that turns a changed key into the nodes to recompute.
//!
//! A node reads through a [`View`](super::view::View), which records every key, misses included; the graph
//! keeps those reads until the node is recomputed or forgotten. There are tens of thousands of them, so a key
//! is kept as its hash of 64 bits alone: should two keys ever share one, a change of either recomputes the
//! readers of both, which is wasted work and nothing else. Nodes are numbered and kept in full.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use sluice_config::{EndpointSetKey, HostPattern, NamespacedName};

use crate::source::References;
use crate::store::{Kind, ObjectKey};

/// Something that can be read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// An object, or its absence.
    Object(ObjectKey),
    /// The EndpointSlices of a Service, as a set.
    SlicesOf(NamespacedName),
    /// Whether IngressClasses could be listed.
    ClassAccess,
    /// Which IngressClass is the default one.
    DefaultClass,
    /// What the ConfigMap says about annotations.
    Gates,
    /// Whether every route is closed.
    Closed,
    /// What an Ingress asks for.
    Facts(NamespacedName),
    /// Which Ingresses claim a host.
    Claims(HostPattern),
    /// What became of a certificate.
    Certificate(NamespacedName),
}

/// A node of the translation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// Keys of the ConfigMap.
    Global,
    /// What flags name: default backend, default certificate, listeners.
    Flags,
    /// What an Ingress asks for.
    Facts(NamespacedName),
    /// A certificate.
    Certificate(NamespacedName),
    /// A host.
    Host(HostPattern),
    /// The endpoints of a Service port.
    Endpoints(EndpointSetKey),
}

/// The edges between nodes and the keys they read.
#[derive(Default)]
pub(crate) struct Graph {
    hasher: RandomState,
    /// Numbers of nodes; the nodes themselves stand in their edges.
    nodes: HashTable<u32>,
    /// By number of the node.
    edges: Vec<Edges>,
    free: Vec<u32>,
    /// By hash of the key.
    readers: HashMap<u64, Readers>,
    /// Secrets that somebody reads, by hash of the key.
    secrets: HashMap<u64, NamespacedName>,
    /// Secrets that somebody reads now and nobody did, or the other way round.
    turned: BTreeMap<NamespacedName, bool>,
}

/// A node and what it read, sorted.
#[derive(Default)]
struct Edges {
    node: Option<Node>,
    reads: Box<[u64]>,
}

/// Numbers of nodes. Most keys have one reader.
enum Readers {
    One(u32),
    #[allow(clippy::box_collection, reason = "a word in place of three, for every key")]
    Many(Box<Vec<u32>>),
}

impl Graph {
    /// Replaces what `node` has read.
    pub(crate) fn record(&mut self, node: &Node, reads: Vec<Key>) {
        let number = self.number(node);
        let mut new: Vec<u64> = reads.iter().map(|key| self.hasher.hash_one(key)).collect();
        for (key, hash) in reads.into_iter().zip(&new) {
            if let Key::Object(ObjectKey { kind: Kind::Secret, name }) = key
                && !self.secrets.contains_key(hash)
            {
                self.secrets.insert(*hash, name.clone());
                self.turn(name, true);
            }
        }
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

    /// Forgets a node and its reads.
    pub(crate) fn forget(&mut self, node: &Node) {
        let Self { hasher, nodes, edges, .. } = self;
        let found = nodes.find_entry(hasher.hash_one(node), |number| stands_at(edges, *number, node));
        let Ok(entry) = found else { return };
        let (number, _) = entry.remove();
        for key in std::mem::take(&mut self.edges[number as usize]).reads {
            self.unread(key, number);
        }
        self.free.push(number);
    }

    /// The nodes that have read `key`.
    pub(crate) fn readers(&self, key: &Key) -> impl Iterator<Item = &Node> {
        let readers = self.readers.get(&self.hasher.hash_one(key)).map_or(&[][..], Readers::as_slice);
        readers.iter().filter_map(|number| self.edges[*number as usize].node.as_ref())
    }

    fn number(&mut self, node: &Node) -> u32 {
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
            // Every number in the table stands for a node.
            edges[*number as usize].node.as_ref().map_or(0, |node| hasher.hash_one(node))
        });
        number
    }

    fn unread(&mut self, key: u64, number: u32) {
        if let Some(readers) = self.readers.get_mut(&key)
            && readers.remove(number)
        {
            self.readers.remove(&key);
            if let Some(name) = self.secrets.remove(&key) {
                self.turn(name, false);
            }
        }
    }

    /// What comes and goes before it was asked for has not been.
    fn turn(&mut self, name: NamespacedName, read: bool) {
        if self.turned.remove(&name).is_none() {
            self.turned.insert(name, read);
        }
    }

    /// Which Secrets came to be read, and which are read no more, since this was last asked.
    pub(crate) fn take_references(&mut self) -> References {
        let mut references = References::default();
        for (name, read) in std::mem::take(&mut self.turned) {
            if read { references.wanted.push(name) } else { references.released.push(name) }
        }
        references
    }
}

fn stands_at(edges: &[Edges], number: u32, node: &Node) -> bool {
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

    /// Returns whether nobody is left.
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

    fn node(name: &str) -> Node {
        Node::Facts(NamespacedName::new("n", name))
    }

    fn key(name: &str) -> Key {
        Key::Facts(NamespacedName::new("n", name))
    }

    fn readers(graph: &Graph, name: &str) -> Vec<Node> {
        let mut found: Vec<Node> = graph.readers(&key(name)).cloned().collect();
        found.sort_by_key(|node| format!("{node:?}"));
        found
    }

    #[test]
    fn secrets_are_told_when_their_first_reader_comes_and_their_last_one_goes() {
        let secret =
            |name: &str| Key::Object(ObjectKey { kind: Kind::Secret, name: NamespacedName::new("n", name) });
        let names = |names: &[&str]| names.iter().map(|name| NamespacedName::new("n", name)).collect();
        let mut graph = Graph::default();
        graph.record(&node("a"), vec![secret("s"), secret("s"), key("x")]);
        graph.record(&node("b"), vec![secret("s"), secret("t")]);
        assert_eq!(graph.take_references(), References { wanted: names(&["s", "t"]), released: names(&[]) });
        graph.record(&node("a"), vec![key("x")]);
        assert_eq!(graph.take_references(), References::default());
        graph.forget(&node("b"));
        graph.record(&node("a"), vec![secret("t")]);
        assert_eq!(graph.take_references(), References { wanted: names(&[]), released: names(&["s"]) });
    }

    #[test]
    fn readers_follow_what_was_read_last() {
        let mut graph = Graph::default();
        graph.record(&node("a"), vec![key("x"), key("y"), key("x")]);
        graph.record(&node("b"), vec![key("y")]);
        assert_eq!(readers(&graph, "y"), [node("a"), node("b")]);
        graph.record(&node("a"), vec![key("z")]);
        assert_eq!(readers(&graph, "x"), []);
        assert_eq!(readers(&graph, "y"), [node("b")]);
        assert_eq!(readers(&graph, "z"), [node("a")]);
        graph.forget(&node("b"));
        assert_eq!(readers(&graph, "y"), []);
        graph.record(&node("c"), vec![key("q"), key("z")]);
        assert_eq!(readers(&graph, "z"), [node("a"), node("c")]);
        assert_eq!(graph.edges.len(), 2, "numbers are given out again");
        graph.forget(&node("a"));
        graph.forget(&node("c"));
        assert!(graph.readers.is_empty() && graph.nodes.is_empty());
    }
}
