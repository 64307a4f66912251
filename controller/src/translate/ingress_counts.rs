//! The number of Ingresses that are not served, and why. Only `sluice check` reports it: with a
//! wrong class or namespace, a check would otherwise find no problem.

use super::Translation;
use super::ingress::class::{self, Selection};

/// Numbers of Ingresses by whether this controller serves them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IngressCounts {
    /// Those that it serves.
    pub served: usize,
    /// Those of another class, of none, or of a class whose controller is unknown.
    pub of_other_classes: usize,
    /// Those in namespaces that are not watched.
    pub of_other_namespaces: usize,
}

impl Translation {
    pub(crate) fn ingress_counts(&self) -> IngressCounts {
        let (view, mut counts) = (self.view(), IngressCounts::default());
        for ingress in self.store.ingresses() {
            match class::select(&view, ingress) {
                Selection::Ours(_) => counts.served += 1,
                Selection::NotOurs(_) | Selection::Undecided => counts.of_other_classes += 1,
                Selection::OutOfScope => counts.of_other_namespaces += 1,
            }
        }
        counts
    }
}
