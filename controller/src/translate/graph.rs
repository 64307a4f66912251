//! Who read what: the reverse index that turns a changed key into the nodes to recompute.
//!
//! A node reads through a [`View`](super::view::View), which records every key, misses included; the graph
//! keeps those reads until the node is recomputed or forgotten. Keys and nodes are numbered, so that an edge
//! is four octets: there are tens of thousands of them.

use std::collections::HashMap;
use std::hash::Hash;

use sluice_config::{EndpointSetKey, HostPattern, NamespacedName};

use crate::store::ObjectKey;

/// Something that can be read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// An object, or its absence.
    Object(ObjectKey),
    /// The EndpointSlices of a Service, as a set.
    SlicesOf(NamespacedName),
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
    keys: Numbers<Key>,
    nodes: Numbers<Node>,
    /// By number of the key.
    readers: Vec<Vec<u32>>,
    /// By number of the node, sorted.
    reads: Vec<Box<[u32]>>,
}

impl Graph {
    /// Replaces what `node` has read.
    pub(crate) fn record(&mut self, node: &Node, reads: Vec<Key>) {
        let node = self.nodes.number(node.clone());
        let mut new: Vec<u32> = reads.into_iter().map(|key| self.keys.number(key)).collect();
        new.sort_unstable();
        new.dedup();
        grow(&mut self.reads, node);
        self.readers.resize_with(self.readers.len().max(self.keys.capacity()), Vec::new);
        if *self.reads[node as usize] == *new {
            return;
        }
        let old = std::mem::replace(&mut self.reads[node as usize], new.clone().into());
        for key in &new {
            if old.binary_search(key).is_err() {
                self.readers[*key as usize].push(node);
            }
        }
        for key in old {
            if new.binary_search(&key).is_err() {
                self.unread(key, node);
            }
        }
    }

    /// Forgets a node and its reads.
    pub(crate) fn forget(&mut self, node: &Node) {
        if let Some(node) = self.nodes.release(node) {
            for key in std::mem::take(&mut self.reads[node as usize]) {
                self.unread(key, node);
            }
        }
    }

    /// The nodes that have read `key`.
    pub(crate) fn readers(&self, key: &Key) -> impl Iterator<Item = &Node> {
        let readers = self.keys.known(key).and_then(|key| self.readers.get(key as usize));
        readers.into_iter().flatten().filter_map(|node| self.nodes.item(*node))
    }

    fn unread(&mut self, key: u32, node: u32) {
        let readers = &mut self.readers[key as usize];
        if let Some(at) = readers.iter().position(|reader| *reader == node) {
            readers.swap_remove(at);
        }
        if readers.is_empty() {
            self.readers[key as usize] = Vec::new();
            self.keys.release_number(key);
        }
    }
}

fn grow<T: Default>(list: &mut Vec<T>, index: u32) {
    if list.len() <= index as usize {
        list.resize_with(index as usize + 1, T::default);
    }
}

/// Numbers for things, given out again when a thing is released.
struct Numbers<T> {
    known: HashMap<T, u32>,
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { known: HashMap::new(), items: Vec::new(), free: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Numbers<T> {
    fn number(&mut self, item: T) -> u32 {
        if let Some(number) = self.known.get(&item) {
            return *number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            // Nodes and keys are bounded by memory long before 2^32 of them.
            (self.items.len() - 1) as u32
        });
        self.items[number as usize] = Some(item.clone());
        self.known.insert(item, number);
        number
    }

    fn known(&self, item: &T) -> Option<u32> {
        self.known.get(item).copied()
    }

    fn item(&self, number: u32) -> Option<&T> {
        self.items[number as usize].as_ref()
    }

    fn capacity(&self) -> usize {
        self.items.len()
    }

    fn release(&mut self, item: &T) -> Option<u32> {
        let number = self.known(item)?;
        self.release_number(number);
        Some(number)
    }

    fn release_number(&mut self, number: u32) {
        if let Some(item) = self.items[number as usize].take() {
            self.known.remove(&item);
            self.free.push(number);
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
        assert!(graph.keys.capacity() <= 3, "numbers are given out again");
    }
}
