//! The index of problems by finder. It computes changes at a cost proportional to the change, so
//! thousands of standing problems do not slow down an edit.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sluice_config::{Problem, Subject};

use crate::graph::TranslationNode;

/// A duty, as the origin of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Duty {
    /// Leader election.
    Election,
    /// The status of Ingresses.
    Status,
    /// The addresses for the status.
    Addresses,
    /// Events.
    Events,
    /// The check of access rights.
    Rights,
    /// The validating webhook.
    Webhook,
}

/// The origin of a problem. Each set of problems of a finder replaces its previous set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Finder {
    /// A node of the translation.
    Node(TranslationNode),
    /// The start-up, while it waits.
    Start,
    /// The source.
    Source,
    /// The data plane, which refuses this part.
    Plane(Subject),
    /// A duty of the controller.
    Duty(Duty),
}

/// Changes of the set of problems.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProblemChanges {
    /// New problems, sorted.
    pub appeared: Vec<Arc<Problem>>,
    /// Resolved problems, sorted.
    pub resolved: Vec<Arc<Problem>>,
}

impl ProblemChanges {
    /// Returns whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.appeared.is_empty() && self.resolved.is_empty()
    }

    /// Separates new problems (first) from resolved ones, which are reported at different times.
    pub(crate) fn split(self) -> (Self, Self) {
        let Self { appeared, resolved } = self;
        (Self { appeared, resolved: Vec::new() }, Self { appeared: Vec::new(), resolved })
    }
}

/// All problems.
#[derive(Debug, Default)]
pub(crate) struct ProblemIndex {
    found: HashMap<Finder, Box<[Arc<Problem>]>>,
    /// Each problem once, with the number of its finders.
    standing: BTreeMap<Arc<Problem>, u32>,
    /// For each problem touched since the last call of [`ProblemIndex::take_changes`]: whether it
    /// stood then.
    touched: BTreeMap<Arc<Problem>, bool>,
    /// Whether problems of nodes are reported.
    nodes_count: bool,
}

impl ProblemIndex {
    /// Replaces the problems of `finder`.
    pub(crate) fn put(&mut self, finder: Finder, problems: Vec<Problem>) {
        let old = self.found.get(&finder).map(|old| &**old).unwrap_or_default();
        // In most cases the set is empty and stays empty.
        if old.iter().map(|old| &**old).eq(&problems) {
            return;
        }
        let counts = self.counts(&finder);
        let new: Box<[Arc<Problem>]> = problems.into_iter().map(Arc::new).collect();
        let old = match new.is_empty() {
            true => self.found.remove(&finder),
            false => self.found.insert(finder, new.clone()),
        };
        if counts {
            new.iter().for_each(|problem| self.add(problem));
            old.iter().flatten().for_each(|problem| self.remove(problem));
        }
    }

    /// Starts to report problems of nodes. Before the initial state is complete, an object whose
    /// Service has not been read yet is not faulty.
    pub(crate) fn count_nodes(&mut self) {
        if std::mem::replace(&mut self.nodes_count, true) {
            return;
        }
        let nodes = self.found.iter().filter(|(finder, _)| matches!(finder, Finder::Node(_)));
        let found: Vec<Arc<Problem>> = nodes.flat_map(|(_, found)| found.iter().cloned()).collect();
        found.iter().for_each(|problem| self.add(problem));
    }

    /// Returns all problems, sorted, without duplicates.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Problem>> {
        self.standing.keys()
    }

    /// Returns whether a finder reports `problem`.
    pub(crate) fn has(&self, problem: &Problem) -> bool {
        self.standing.contains_key(problem)
    }

    /// Returns the changes since the last call.
    pub(crate) fn take_changes(&mut self) -> ProblemChanges {
        let mut changes = ProblemChanges::default();
        for (problem, stood) in std::mem::take(&mut self.touched) {
            match (stood, self.standing.contains_key(&problem)) {
                (false, true) => changes.appeared.push(problem),
                (true, false) => changes.resolved.push(problem),
                (true, true) | (false, false) => {}
            }
        }
        changes
    }

    fn counts(&self, finder: &Finder) -> bool {
        self.nodes_count || !matches!(finder, Finder::Node(_))
    }

    fn add(&mut self, problem: &Arc<Problem>) {
        let finders = self.standing.entry(problem.clone()).or_default();
        self.touched.entry(problem.clone()).or_insert(*finders > 0);
        *finders += 1;
    }

    fn remove(&mut self, problem: &Arc<Problem>) {
        let Some(finders) = self.standing.get_mut(problem) else { return };
        self.touched.entry(problem.clone()).or_insert(true);
        *finders -= 1;
        if *finders == 0 {
            self.standing.remove(problem);
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::{Code, ObjectRef};

    use super::*;
    use crate::problem::error;

    fn problem(field: &str) -> Problem {
        error(Code::PathInvalid, &ObjectRef::new("Ingress", "n", "a"), field, "bad", "correct it")
    }

    fn fields(problems: &[Arc<Problem>]) -> Vec<&str> {
        problems.iter().map(|problem| &*problem.field).collect()
    }

    #[test]
    fn a_problem_stands_while_any_finder_has_it() {
        let mut index = ProblemIndex::default();
        index.put(Finder::Source, vec![problem("a"), problem("b")]);
        index.put(Finder::Start, vec![problem("b")]);
        assert_eq!(fields(&index.take_changes().appeared), ["a", "b"]);
        index.put(Finder::Source, vec![problem("c")]);
        let changes = index.take_changes();
        assert_eq!((fields(&changes.appeared), fields(&changes.resolved)), (vec!["c"], vec!["a"]));
        index.put(Finder::Start, vec![]);
        index.put(Finder::Source, vec![problem("b"), problem("c")]);
        assert!(index.take_changes().is_empty(), "what goes and comes back in between has not changed");
        assert_eq!(index.all().count(), 2);
    }

    #[test]
    fn problems_of_nodes_count_once_the_state_is_complete() {
        let mut index = ProblemIndex::default();
        index.put(Finder::Node(TranslationNode::ConfigMap), vec![problem("a")]);
        assert!(index.take_changes().is_empty());
        assert_eq!(index.all().count(), 0);
        index.count_nodes();
        assert_eq!(fields(&index.take_changes().appeared), ["a"]);
        index.put(Finder::Node(TranslationNode::ConfigMap), vec![]);
        assert_eq!(fields(&index.take_changes().resolved), ["a"]);
    }
}
