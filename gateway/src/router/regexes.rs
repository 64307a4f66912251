//! Regular expressions on the path, in order.
//!
//! They cannot be indexed, so they are searched many at a time: one pass over the path tells which of a whole
//! batch match. Batches rather than one set per host, because a set is compiled as one automaton whose size
//! is bounded, and because a match in an early batch saves the later ones. Most hosts have one or two of them, often of a
//! kind that can be told without a search.

use std::sync::Arc;

use regex::{RegexBuilder, RegexSet, RegexSetBuilder};

use super::error::RouterError;
use super::prefix_and_rest::PrefixAndRest;

/// Bytes that one regular expression may have when compiled, and that its search may use on the side.
pub(crate) const SIZE_LIMIT: usize = 1 << 20;

const BATCH: usize = 32;

/// Regular expressions and the positions of the rules they belong to.
pub(super) struct Regexes {
    batches: Box<[Batch]>,
}

struct Batch {
    /// Ascending; parallel to the patterns of `set`.
    positions: Box<[u32]>,
    set: RegexSet,
    /// The first of them, if it is of that kind.
    first: Option<PrefixAndRest>,
}

impl Regexes {
    /// Patterns by ascending position.
    pub(super) fn compile(patterns: &[(u32, Arc<str>)]) -> Result<Self, RouterError> {
        patterns.chunks(BATCH).map(Batch::compile).collect::<Result<_, _>>().map(|batches| Self { batches })
    }

    /// The lowest position below `best` whose pattern is found in the path and which `accept` takes.
    pub(super) fn first(&self, path: &str, best: u32, accept: impl Fn(u32) -> bool) -> Option<u32> {
        self.batches.iter().take_while(|batch| batch.positions[0] < best).find_map(|batch| {
            let position = batch.positions[0];
            if batch.first.as_ref().is_some_and(|first| first.groups(path).is_some()) && accept(position) {
                return Some(position);
            }
            let matched = batch.set.matches(path);
            let mut positions = matched.iter().map(|index| batch.positions[index]);
            positions.find(|position| *position < best && accept(*position))
        })
    }
}

impl Regexes {
    /// The positions of all whose pattern is found in the path.
    pub(super) fn all(&self, path: &str) -> impl Iterator<Item = u32> {
        self.batches
            .iter()
            .flat_map(move |batch| batch.set.matches(path).into_iter().map(|index| batch.positions[index]))
    }
}

impl Batch {
    fn compile(patterns: &[(u32, Arc<str>)]) -> Result<Self, RouterError> {
        let set = RegexSetBuilder::new(patterns.iter().map(|(_, pattern)| pattern))
            .size_limit(SIZE_LIMIT * patterns.len())
            .dfa_size_limit(SIZE_LIMIT)
            .build();
        match set {
            Ok(set) => Ok(Self {
                positions: patterns.iter().map(|(position, _)| *position).collect(),
                set,
                first: patterns.first().and_then(|(_, pattern)| PrefixAndRest::of(pattern)),
            }),
            Err(together) => Err(culprit(patterns, &together)),
        }
    }
}

/// Which of the patterns is at fault. A set does not tell, so each is tried alone.
fn culprit(patterns: &[(u32, Arc<str>)], together: &regex::Error) -> RouterError {
    let alone = patterns.iter().find_map(|(_, pattern)| {
        let error = RegexBuilder::new(pattern).size_limit(SIZE_LIMIT).build().err()?;
        Some(RouterError::regex(pattern, &error))
    });
    alone.unwrap_or_else(|| {
        let all: Vec<&str> = patterns.iter().map(|(_, pattern)| &**pattern).collect();
        RouterError::regex(&all.join("`, `"), together)
    })
}
