//! Exact paths and prefixes, found element by element.
//!
//! A walk down the tree meets every prefix and the exact path of a request in one pass and ends where no
//! configured path goes on, so its cost depends on the depth of the configured paths only: neither on their
//! number nor on how long a client makes its own.

use std::collections::HashMap;

use smallvec::SmallVec;

/// Positions of rules, ascending. Nearly always there is one.
type Positions = SmallVec<[u32; 2]>;

/// Lists of positions.
pub(super) type Candidates<'t> = SmallVec<[&'t [u32]; 16]>;

/// A tree of path elements. The nodes lie in one list and name each other by index: a path may have very many
/// elements, and a tree of boxes that deep cannot be dropped without exhausting the stack.
#[derive(Default)]
pub(super) struct PathTrie {
    /// All there is of most hosts, hence not one of the list.
    root: Node,
    nodes: Vec<Node>,
}

/// The path made of the elements from the root down to here, without and with a final slash.
#[derive(Default)]
struct Node {
    /// Where in the list they are. Most nodes have none.
    #[allow(clippy::box_collection, reason = "a word in place of six, for every host")]
    children: Option<Box<HashMap<Box<str>, usize, foldhash::fast::RandomState>>>,
    exact: Positions,
    exact_slash: Positions,
    prefix: Positions,
    prefix_slash: Positions,
}

impl PathTrie {
    /// Adds an exact path. One that does not begin with a slash equals no request's path and is left out.
    pub(super) fn insert_exact(&mut self, path: &str, position: u32) {
        if let Some((node, slash)) = self.node(path) {
            if slash { &mut node.exact_slash } else { &mut node.exact }.push(position);
        }
    }

    /// Adds a prefix; likewise.
    pub(super) fn insert_prefix(&mut self, path: &str, position: u32) {
        if let Some((node, slash)) = self.node(path) {
            if slash { &mut node.prefix_slash } else { &mut node.prefix }.push(position);
        }
    }

    /// The node of a path, and whether the path has a final slash.
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

    /// A node by its place in the list; the root has none.
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

    /// The rules whose path takes this one, as lists that are each ascending; the deepest come last.
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

/// The first element, and what follows the slash after it, if there is one.
fn split(path: &str) -> (&str, Option<&str>) {
    match path.split_once('/') {
        Some((element, tail)) => (element, Some(tail)),
        None => (path, None),
    }
}
