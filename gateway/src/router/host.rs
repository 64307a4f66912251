//! A compiled host: its rules, with indexes that find the candidates for a path.

mod explain;

use std::fmt;
use std::sync::Arc;

use sluice_config::{Match, PathMatch};
use smallvec::SmallVec;

use super::error::RouterError;
use super::predicate::Predicates;
use super::regexes::{PathPattern, Regexes};
use super::request_view::RequestView;
use super::trie::PathTrie;
use crate::message::fields::Fields;

pub use explain::Reason;

/// The rules of one host. `T` is the route of a rule.
pub struct CompiledHost<T> {
    /// Most hosts have one.
    rules: SmallVec<[Entry<T>; 1]>,
    paths: PathTrie,
    /// Most hosts have none.
    regexes: Option<Box<Regexes>>,
    fall_through: bool,
}

struct Entry<T> {
    predicates: Option<Box<Predicates>>,
    route: Arc<T>,
}

impl<T> CompiledHost<T> {
    /// Compiles the matches of a host, which are in total order: the first match that holds for a
    /// request decides. `fall_through` is [`sluice_config::Host::fall_through`].
    ///
    /// # Errors
    /// A regular expression is malformed or too large, or a header name is invalid; the error names
    /// it.
    pub fn compile<'m>(
        matches: impl IntoIterator<Item = (&'m Match, Arc<T>)>,
        fall_through: bool,
    ) -> Result<Self, RouterError> {
        let mut rules = SmallVec::new();
        let mut paths = PathTrie::default();
        let mut patterns = Vec::new();
        for (position, (matches, route)) in (0..).zip(matches) {
            match &matches.path {
                PathMatch::Exact(path) => paths.insert_exact(path, position),
                PathMatch::Prefix(path) => paths.insert_prefix(path, position),
                PathMatch::Regex(pattern) => patterns.push(PathPattern { position, pattern, extended: None }),
                PathMatch::Extended(regex) => {
                    patterns.push(PathPattern { position, pattern: &regex.pattern, extended: Some(regex) });
                }
            }
            rules.push(Entry { predicates: Predicates::compile(matches)?, route });
        }
        let regexes = match patterns.is_empty() {
            true => None,
            false => Some(Box::new(Regexes::compile(&patterns)?)),
        };
        Ok(Self { rules, paths, regexes, fall_through })
    }

    /// Returns the route of the first rule that matches. Allocates only to evaluate regular
    /// expressions and conditions on encoded or repeated fields.
    pub fn find(&self, request: &RequestView<'_, impl Fields>) -> Option<&Arc<T>> {
        let mut best = u32::MAX;
        // Deeper paths usually come first in the order; a single comparison then rules out the
        // shallower lists.
        for positions in self.paths.candidates(request.path).iter().rev() {
            let mut better = positions.iter().copied().take_while(|position| *position < best);
            if let Some(position) = better.find(|position| self.holds(*position, request)) {
                best = position;
            }
        }
        if let Some(regexes) = &self.regexes
            && let Some(position) = regexes.first(request.path, best, |at| self.holds(at, request))
        {
            best = position;
        }
        self.rules.get(best as usize).map(|entry| &entry.route)
    }

    fn holds(&self, position: u32, request: &RequestView<'_, impl Fields>) -> bool {
        let predicates = &self.rules[position as usize].predicates;
        predicates.as_ref().is_none_or(|predicates| predicates.hold(request))
    }

    /// Returns the routes of all rules, in order.
    pub fn routes(&self) -> impl Iterator<Item = &Arc<T>> {
        self.rules.iter().map(|entry| &entry.route)
    }

    /// Returns whether a request that no rule matches may be looked up in a less specific host.
    pub fn fall_through(&self) -> bool {
        self.fall_through
    }
}

impl<T> fmt::Debug for CompiledHost<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledHost")
            .field("rules", &self.rules.len())
            .field("fall_through", &self.fall_through)
            .finish_non_exhaustive()
    }
}
