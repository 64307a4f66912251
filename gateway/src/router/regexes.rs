//! Regular expressions on the path, in order.
//!
//! Expressions cannot be indexed, so many are searched at a time: one pass over the path finds all
//! matches of a batch. There are several batches instead of one set per host, because a set is
//! compiled into one automaton of bounded size, and because a match in an early batch makes the
//! later ones unnecessary. Most expressions have a form that needs no search
//! ([`SimpleExpression`]); they are compared one by one, because comparing a hundred of them costs
//! less than a search.

use regex::bytes::{Regex, RegexSet, RegexSetBuilder};
use sluice_config::{ExtendedRegex, LookAhead};
use sluice_expression::{SimpleExpression, needs_characters};

use super::error::RouterError;
use crate::expression::{ExtendedMatcher, SIZE_LIMIT, bounded_bytes_regex};

const BATCH: usize = 32;

/// Regular expressions and the positions of their rules.
pub(super) struct Regexes {
    /// Expressions that need no search, by ascending position.
    simple: Box<[(u32, SimpleExpression)]>,
    batches: Box<[Batch]>,
    /// Expressions that are searched by backtracking, by ascending position.
    backtracking: Box<[(u32, ExtendedMatcher)]>,
}

/// The regular expression of a rule.
#[derive(Clone, Copy)]
pub(super) struct PathPattern<'m> {
    /// Position of the rule.
    pub(super) position: u32,
    pub(super) pattern: &'m str,
    /// Its engine and further conditions, if its syntax is extended.
    pub(super) extended: Option<&'m ExtendedRegex>,
}

impl<'m> PathPattern<'m> {
    /// Additional conditions on the path.
    fn conditions(&self) -> &'m [LookAhead] {
        self.extended.map_or(&[], |regex| &regex.conditions)
    }

    fn needs_characters(&self) -> bool {
        needs_characters(self.pattern)
    }
}

/// Patterns that are searched together. All match bytes, as in nginx, or all match characters.
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
        let (mut others, mut backtracking) = (Vec::new(), Vec::new());
        for pattern in patterns {
            if let Some(regex) = pattern.extended.filter(|regex| regex.backtracks) {
                let compiled = ExtendedMatcher::compile(regex);
                let compiled = compiled.map_err(|error| RouterError::expression(&regex.text, &error))?;
                backtracking.push((pattern.position, compiled));
                continue;
            }
            match SimpleExpression::of(pattern.pattern).filter(|_| pattern.conditions().is_empty()) {
                Some(expression) => simple.push((pattern.position, expression)),
                None => others.push(*pattern),
            }
        }
        let runs = others.chunk_by(|one, next| one.needs_characters() == next.needs_characters());
        let batches = runs.flat_map(|run| run.chunks(BATCH)).map(Batch::compile);
        let batches = batches.collect::<Result<_, _>>()?;
        Ok(Self { simple: simple.into(), batches, backtracking: backtracking.into() })
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
        let found = searched.or(simple);
        let best = found.unwrap_or(best);
        let mut better = self.backtracking.iter().take_while(|(position, _)| *position < best);
        // The condition of the rule is checked first: it costs less.
        let backtracked =
            better.find(|(position, regex)| accept(*position) && regex.is_match(path.as_bytes()));
        backtracked.map(|(position, _)| *position).or(found)
    }

    /// Returns the positions of all patterns that match the path, in arbitrary order.
    pub(super) fn all(&self, path: &str) -> impl Iterator<Item = u32> {
        let simple = self.simple.iter().filter(move |(_, expression)| expression.is_match(path));
        let searched = self.batches.iter().flat_map(move |batch| batch.matches(path));
        let backtracked = self.backtracking.iter().filter(move |(_, regex)| regex.is_match(path.as_bytes()));
        let positions = simple.map(|(position, _)| *position).chain(searched);
        positions.chain(backtracked.map(|(position, _)| *position))
    }
}

impl Batch {
    fn compile(patterns: &[PathPattern<'_>]) -> Result<Self, RouterError> {
        let set = RegexSetBuilder::new(patterns.iter().map(|pattern| pattern.pattern))
            .unicode(patterns.first().is_some_and(PathPattern::needs_characters))
            .size_limit(SIZE_LIMIT * patterns.len())
            .dfa_size_limit(SIZE_LIMIT)
            .build();
        let set = set.map_err(|together| find_invalid_pattern(patterns, &together))?;
        let conditions = patterns
            .iter()
            .flat_map(|pattern| pattern.conditions().iter().map(|condition| (pattern.position, condition)))
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
        let found = self.set.matches(path.as_bytes()).into_iter().map(|index| self.positions[index]);
        found.filter(|position| self.holds(*position, path))
    }

    /// Returns whether the additional conditions of the pattern at `position` hold for a path.
    fn holds(&self, position: u32, path: &str) -> bool {
        let mut asked = self.conditions.iter().filter(|condition| condition.position == position);
        asked.all(|condition| condition.pattern.is_match(path.as_bytes()) != condition.negative)
    }
}

fn alone(pattern: &str) -> Result<Regex, RouterError> {
    bounded_bytes_regex(pattern).map_err(|error| RouterError::regex(pattern, &error))
}

/// Finds the pattern that caused an error of the set, which does not identify it, by compiling each
/// one separately.
fn find_invalid_pattern(patterns: &[PathPattern<'_>], together: &regex::Error) -> RouterError {
    patterns.iter().find_map(|pattern| alone(pattern.pattern).err()).unwrap_or_else(|| {
        let all: Vec<&str> = patterns.iter().map(|pattern| pattern.pattern).collect();
        RouterError::regex(&all.join("`, `"), together)
    })
}
