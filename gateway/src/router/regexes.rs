//! Regular expressions on the path, in order.
//!
//! They cannot be indexed, so they are searched many at a time: one pass over the path tells which of a whole
//! batch match. Batches rather than one set per host, because a set is compiled as one automaton whose size
//! is bounded, and because a match in an early batch saves the later ones. Most hosts have one or two of them, often of a
//! kind that can be told without a search.

use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use sluice_config::LookAhead;

use super::error::RouterError;
use super::prefix_and_rest::PrefixAndRest;

/// Bytes that one regular expression may have when compiled, and that its search may use on the side.
pub(crate) const SIZE_LIMIT: usize = 1 << 20;

const BATCH: usize = 32;

/// Regular expressions and the positions of the rules they belong to.
pub(super) struct Regexes {
    batches: Box<[Batch]>,
}

/// The regular expression of a rule.
#[derive(Clone, Copy)]
pub(super) struct PathPattern<'m> {
    /// That of the rule.
    pub(super) position: u32,
    pub(super) pattern: &'m str,
    /// What must hold besides.
    pub(super) conditions: &'m [LookAhead],
}

struct Batch {
    /// Ascending; parallel to the patterns of `set`.
    positions: Box<[u32]>,
    set: RegexSet,
    /// The first of them, if it is of that kind.
    first: Option<PrefixAndRest>,
    /// What must hold besides, of those few that ask for it.
    conditions: Box<[Condition]>,
}

/// A look-ahead of the rule at a position.
struct Condition {
    position: u32,
    pattern: Regex,
    negative: bool,
}

impl Regexes {
    /// Patterns by ascending position.
    pub(super) fn compile(patterns: &[PathPattern<'_>]) -> Result<Self, RouterError> {
        patterns.chunks(BATCH).map(Batch::compile).collect::<Result<_, _>>().map(|batches| Self { batches })
    }

    /// The lowest position below `best` whose pattern is found in the path and which `accept` takes.
    pub(super) fn first(&self, path: &str, best: u32, accept: impl Fn(u32) -> bool) -> Option<u32> {
        self.batches.iter().take_while(|batch| batch.positions[0] < best).find_map(|batch| {
            let position = batch.positions[0];
            let is_first = batch.first.as_ref().is_some_and(|first| first.groups(path).is_some());
            if is_first && batch.holds(position, path) && accept(position) {
                return Some(position);
            }
            batch.matches(path).find(|position| *position < best && accept(*position))
        })
    }

    /// The positions of all whose pattern is found in the path.
    pub(super) fn all(&self, path: &str) -> impl Iterator<Item = u32> {
        self.batches.iter().flat_map(move |batch| batch.matches(path))
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
            first: patterns.first().and_then(|first| PrefixAndRest::of(first.pattern)),
            conditions: conditions.collect::<Result<_, _>>()?,
        })
    }

    /// The positions of those that match a path, ascending.
    fn matches(&self, path: &str) -> impl Iterator<Item = u32> {
        let found = self.set.matches(path).into_iter().map(|index| self.positions[index]);
        found.filter(|position| self.holds(*position, path))
    }

    /// Whether a path has ahead what the pattern at a position asks for.
    fn holds(&self, position: u32, path: &str) -> bool {
        let mut asked = self.conditions.iter().filter(|condition| condition.position == position);
        asked.all(|condition| condition.pattern.is_match(path) != condition.negative)
    }
}

fn alone(pattern: &str) -> Result<Regex, RouterError> {
    let built = RegexBuilder::new(pattern).size_limit(SIZE_LIMIT).dfa_size_limit(SIZE_LIMIT).build();
    built.map_err(|error| RouterError::regex(pattern, &error))
}

/// Which of the patterns is at fault. A set does not tell, so each is tried alone.
fn culprit(patterns: &[PathPattern<'_>], together: &regex::Error) -> RouterError {
    patterns.iter().find_map(|pattern| alone(pattern.pattern).err()).unwrap_or_else(|| {
        let all: Vec<&str> = patterns.iter().map(|pattern| pattern.pattern).collect();
        RouterError::regex(&all.join("`, `"), together)
    })
}
