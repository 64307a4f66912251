//! Exact paths and prefixes, found path element by path element.
//!
//! A walk down the tree visits all prefixes and the exact path of a request in one pass, and ends
//! where no configured path continues. Its cost depends only on the depth of the configured paths,
//! neither on their number nor on the length of the requested path.

use std::collections::HashMap;

use smallvec::SmallVec;

/// Positions of rules, ascending. Nearly always one.
type Positions = SmallVec<[u32; 2]>;

/// Lists of positions.
pub(super) type Candidates<'t> = SmallVec<[&'t [u32]; 16]>;

/// A tree of path elements. The nodes are stored in one list and refer to each other by index: a
/// path may have very many elements, and dropping an equally deep tree of boxes would exhaust the
/// stack.
#[derive(Default)]
pub(super) struct PathTrie {
    /// The only node of most hosts, and therefore not part of the list.
    root: Node,
    nodes: Vec<Node>,
}

/// The path from the root to this node, and the rules for it without and with a final slash.
#[derive(Default)]
struct Node {
    /// Indexes of the children in the list. Most nodes have none.
    #[allow(clippy::box_collection, reason = "a word in place of six, for every host")]
    children: Option<Box<HashMap<Box<str>, usize, foldhash::fast::RandomState>>>,
    exact: Positions,
    exact_slash: Positions,
    prefix: Positions,
    prefix_slash: Positions,
}

impl PathTrie {
    /// Adds an exact path. A path without a leading slash cannot match any request and is ignored.
    pub(super) fn insert_exact(&mut self, path: &str, position: u32) {
        if let Some((node, slash)) = self.node(path) {
            if slash { &mut node.exact_slash } else { &mut node.exact }.push(position);
        }
    }

    /// Adds a prefix. A prefix without a leading slash is ignored too.
    pub(super) fn insert_prefix(&mut self, path: &str, position: u32) {
        if let Some((node, slash)) = self.node(path) {
            if slash { &mut node.prefix_slash } else { &mut node.prefix }.push(position);
        }
    }

    /// Returns the node of a path, and whether the path has a final slash.
    fn node(&mut self, path: &str) -> Option<(&mut Node, bool)> {
        let mut rest = path.strip_prefix('/')?;
        let mut node = None;
        let mut slash = true;
        while !rest.is_empty() {
            let (element, tail) = split(rest);
            node = Some(self.child(node, element));
            slash = tail.is_some();
            rest = tail.unwrap_or_default();
        }
        Some((self.at(node), slash))
    }

    /// Returns a node by its index in the list; the root has none.
    fn at(&mut self, node: Option<usize>) -> &mut Node {
        match node {
            Some(node) => &mut self.nodes[node],
            None => &mut self.root,
        }
    }

    fn child(&mut self, parent: Option<usize>, element: &str) -> usize {
        if let Some(child) = self.at(parent).child(element) {
            return child;
        }
        let child = self.nodes.len();
        self.nodes.push(Node::default());
        self.at(parent).children.get_or_insert_default().insert(element.into(), child);
        child
    }

    /// Returns the rules that match this path as lists, each ascending; the lists of the deepest
    /// paths come last.
    pub(super) fn candidates(&self, path: &str) -> Candidates<'_> {
        let mut found = Candidates::new();
        let mut add = |positions| {
            let positions: &[u32] = positions;
            if !positions.is_empty() {
                found.push(positions);
            }
        };
        let mut node = &self.root;
        let mut rest = path.strip_prefix('/');
        while let Some(path) = rest {
            add(&node.prefix_slash);
            if path.is_empty() {
                add(&node.exact_slash);
                break;
            }
            let (element, tail) = split(path);
            let Some(child) = node.child(element) else { break };
            node = &self.nodes[child];
            add(&node.prefix);
            if tail.is_none() {
                add(&node.exact);
            }
            rest = tail;
        }
        found
    }
}

impl Node {
    fn child(&self, element: &str) -> Option<usize> {
        self.children.as_ref()?.get(element).copied()
    }
}

/// Returns the first element, and the text after the slash that follows it, if there is one.
fn split(path: &str) -> (&str, Option<&str>) {
    match path.split_once('/') {
        Some((element, tail)) => (element, Some(tail)),
        None => (path, None),
    }
}
