//! Which `location` block of a server takes a path, by nginx's precedence: `=`, then `^~` if its
//! prefix is the longest, then expressions in order, then the longest prefix. The location of the
//! rule takes part by its own path.

use sluice_config::directives::LocationMatch;
use sluice_config::{LocationBlock, PathMatch};

use crate::policy::assigned::Assigned;
use crate::policy::error::PolicyError;
use crate::policy::expression::Expression;

/// The matches of all blocks.
#[derive(Debug)]
pub(super) struct BlockSelector(Box<[BlockMatch]>);

#[derive(Debug)]
enum BlockMatch {
    Exact(Box<str>),
    Prefix { path: Box<str>, is_final: bool },
    Expression(Expression),
}

/// The precedence of the location of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteRank {
    Exact,
    /// A prefix of so many bytes.
    Prefix(usize),
    Expression,
}

impl RouteRank {
    /// The rank of a match. The path of a prefix itself counts as one too: nginx has an exact
    /// location for some of them, and there a block may still refuse.
    pub(super) fn of(path: &PathMatch) -> Self {
        match path {
            PathMatch::Exact(_) => Self::Exact,
            PathMatch::Prefix(path) => Self::Prefix(path.len()),
            PathMatch::Regex(_) | PathMatch::Extended(_) => Self::Expression,
        }
    }
}

impl BlockSelector {
    /// Compiles the matches.
    ///
    /// # Errors
    /// An expression cannot be used.
    pub(super) fn compile(blocks: &[LocationBlock]) -> Result<Self, PolicyError> {
        let one = |block: &LocationBlock| {
            Ok(match &block.matches {
                LocationMatch::Exact(path) => BlockMatch::Exact((**path).into()),
                LocationMatch::Prefix(path) => BlockMatch::Prefix { path: (**path).into(), is_final: false },
                LocationMatch::FinalPrefix(path) => {
                    BlockMatch::Prefix { path: (**path).into(), is_final: true }
                }
                LocationMatch::Expression(expression) => {
                    BlockMatch::Expression(Expression::compile(expression)?)
                }
            })
        };
        blocks.iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    /// The position of the block that takes a path in place of a rule with this rank.
    pub(super) fn select(&self, path: &str, rank: RouteRank) -> Option<usize> {
        if self.0.is_empty() {
            return None;
        }
        let is_exact = |block: &BlockMatch| matches!(block, BlockMatch::Exact(exact) if **exact == *path);
        if let Some(at) = self.0.iter().position(is_exact) {
            return Some(at);
        }
        if rank == RouteRank::Exact {
            return None;
        }
        let of_rule = match rank {
            RouteRank::Prefix(length) => length,
            RouteRank::Exact | RouteRank::Expression => 0,
        };
        let longest = self.longest(path).filter(|(length, ..)| *length > of_rule);
        if let Some((_, at, true)) = longest {
            return Some(at);
        }
        let bytes = path.as_bytes();
        let expression = self.0.iter().position(
            |block| matches!(block, BlockMatch::Expression(expression) if expression.is_match(bytes)),
        );
        match rank {
            _ if expression.is_some() => expression,
            RouteRank::Expression => None,
            RouteRank::Exact | RouteRank::Prefix(_) => longest.map(|(_, at, _)| at),
        }
    }

    /// Keeps the groups of the expression of the block at `at`, which takes `path`.
    pub(super) fn keep_groups(&self, at: usize, path: &str, assigned: &mut Assigned) {
        if let Some(BlockMatch::Expression(expression)) = self.0.get(at) {
            expression.search(path.as_bytes(), assigned);
        }
    }

    /// The length, position and finality of the longest prefix of a path.
    fn longest(&self, path: &str) -> Option<(usize, usize, bool)> {
        let prefixes = self.0.iter().enumerate().filter_map(|(at, block)| match block {
            BlockMatch::Prefix { path: prefix, is_final } if path.starts_with(&**prefix) => {
                Some((prefix.len(), at, *is_final))
            }
            _ => None,
        });
        prefixes.max_by_key(|(length, ..)| *length)
    }
}

#[cfg(test)]
mod tests;
