//! Regular expressions on the path, in order.
//!
//! Expressions cannot be indexed, so many are searched at a time: one pass over the path finds all
//! matches of a batch. There are several batches instead of one set per host, because a set is
//! compiled into one automaton of bounded size, and because a match in an early batch makes the
//! later ones unnecessary. Most expressions have a form that needs no search
//! ([`SimpleExpression`]); they are compared one by one, because comparing a hundred of them costs
//! less than a search.

use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use sluice_config::{LookAhead, SimpleExpression};

use super::error::RouterError;

/// Maximum size in bytes of a compiled expression, and of the cache that its search may use.
pub(crate) const SIZE_LIMIT: usize = 1 << 20;

const BATCH: usize = 32;

/// Regular expressions and the positions of their rules.
pub(super) struct Regexes {
    /// Expressions that need no search, by ascending position.
    simple: Box<[(u32, SimpleExpression)]>,
    batches: Box<[Batch]>,
}

/// The regular expression of a rule.
#[derive(Clone, Copy)]
pub(super) struct PathPattern<'m> {
    /// Position of the rule.
    pub(super) position: u32,
    pub(super) pattern: &'m str,
    /// Additional conditions on the path.
    pub(super) conditions: &'m [LookAhead],
}

struct Batch {
    /// Ascending; parallel to the patterns of `set`.
    positions: Box<[u32]>,
    set: RegexSet,
    /// Additional conditions of the few patterns that have some.
    conditions: Box<[Condition]>,
}

/// A look-ahead condition of the rule at `position`.
struct Condition {
    position: u32,
    pattern: Regex,
    negative: bool,
}

impl Regexes {
    /// Compiles patterns, which must be ordered by ascending position.
    pub(super) fn compile(patterns: &[PathPattern<'_>]) -> Result<Self, RouterError> {
        let mut simple = Vec::new();
        let mut others = Vec::new();
        for pattern in patterns {
            match SimpleExpression::of(pattern.pattern).filter(|_| pattern.conditions.is_empty()) {
                Some(expression) => simple.push((pattern.position, expression)),
                None => others.push(*pattern),
            }
        }
        let batches = others.chunks(BATCH).map(Batch::compile).collect::<Result<_, _>>()?;
        Ok(Self { simple: simple.into(), batches })
    }

    /// Returns the lowest position below `best` whose pattern matches the path and that `accept`
    /// accepts.
    pub(super) fn first(&self, path: &str, best: u32, accept: impl Fn(u32) -> bool) -> Option<u32> {
        let mut better = self.simple.iter().take_while(|(position, _)| *position < best);
        let simple = better.find(|(position, expression)| expression.is_match(path) && accept(*position));
        let simple = simple.map(|(position, _)| *position);
        let best = simple.unwrap_or(best);
        let mut batches = self.batches.iter().take_while(|batch| batch.positions[0] < best);
        let searched = batches
            .find_map(|batch| batch.matches(path).find(|position| *position < best && accept(*position)));
        searched.or(simple)
    }

    /// Returns the positions of all patterns that match the path, in arbitrary order.
    pub(super) fn all(&self, path: &str) -> impl Iterator<Item = u32> {
        let simple = self.simple.iter().filter(move |(_, expression)| expression.is_match(path));
        let searched = self.batches.iter().flat_map(move |batch| batch.matches(path));
        simple.map(|(position, _)| *position).chain(searched)
    }
}

impl Batch {
    fn compile(patterns: &[PathPattern<'_>]) -> Result<Self, RouterError> {
        let set = RegexSetBuilder::new(patterns.iter().map(|pattern| pattern.pattern))
            .size_limit(SIZE_LIMIT * patterns.len())
            .dfa_size_limit(SIZE_LIMIT)
            .build();
        let set = set.map_err(|together| culprit(patterns, &together))?;
        let conditions = patterns
            .iter()
            .flat_map(|pattern| pattern.conditions.iter().map(|condition| (pattern.position, condition)))
            .map(|(position, condition)| {
                let pattern = alone(&condition.pattern)?;
                Ok(Condition { position, pattern, negative: condition.negative })
            });
        Ok(Self {
            positions: patterns.iter().map(|pattern| pattern.position).collect(),
            set,
            conditions: conditions.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the positions of the patterns that match a path, ascending.
    fn matches(&self, path: &str) -> impl Iterator<Item = u32> {
        let found = self.set.matches(path).into_iter().map(|index| self.positions[index]);
        found.filter(|position| self.holds(*position, path))
    }

    /// Returns whether the additional conditions of the pattern at `position` hold for a path.
    fn holds(&self, position: u32, path: &str) -> bool {
        let mut asked = self.conditions.iter().filter(|condition| condition.position == position);
        asked.all(|condition| condition.pattern.is_match(path) != condition.negative)
    }
}

/// Compiles a regular expression for strings within the size limits.
pub(crate) fn bounded_regex(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(SIZE_LIMIT).dfa_size_limit(SIZE_LIMIT).build()
}

/// Compiles a regular expression for bytes within the size limits.
pub(crate) fn bounded_bytes_regex(pattern: &str) -> Result<regex::bytes::Regex, regex::Error> {
    regex::bytes::RegexBuilder::new(pattern).size_limit(SIZE_LIMIT).dfa_size_limit(SIZE_LIMIT).build()
}

fn alone(pattern: &str) -> Result<Regex, RouterError> {
    bounded_regex(pattern).map_err(|error| RouterError::regex(pattern, &error))
}

/// Finds the pattern that caused an error of the set, which does not identify it, by compiling each
/// one separately.
fn culprit(patterns: &[PathPattern<'_>], together: &regex::Error) -> RouterError {
    patterns.iter().find_map(|pattern| alone(pattern.pattern).err()).unwrap_or_else(|| {
        let all: Vec<&str> = patterns.iter().map(|pattern| pattern.pattern).collect();
        RouterError::regex(&all.join("`, `"), together)
    })
}
