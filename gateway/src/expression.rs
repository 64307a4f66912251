//! Regular expressions: a linear-time engine for all that it can read, and a backtracking engine
//! with a step limit for the rest of PCRE's syntax (look-around, atomic groups, back-references).
//!
//! The limit is one per request, over all its searches. An expression that reaches it counts as a
//! match, so that the request is not passed on to a broader rule; its answer is 500, whatever the
//! stages decide, because neither a match nor its absence is known. A response field whose
//! value needs a search at the limit is omitted.
//!
//! The steps that are left belong to the thread while the limit is in force: all stages of a
//! request run on one thread without an interruption, up to a verdict, and a response head is
//! changed without one.
//!
//! Limits nest: an inner one draws on the steps of the outer one. Outside of a request, each limit
//! applies alone.

mod host_names;

use std::cell::Cell;
use std::ops::Range;

use regex::bytes::Regex;
use sluice_config::ExtendedRegex;
use sluice_expression::{BacktrackingRegex, StepLimitReached, needs_characters};

pub(crate) use self::host_names::ByExpression;

/// Maximum size in bytes of a compiled expression, and of the cache that its search may use.
pub(crate) const SIZE_LIMIT: usize = 1 << 20;

/// Steps that the expressions of a request may take by backtracking: a few milliseconds at most.
pub(crate) const STEP_LIMIT: u32 = 250_000;

thread_local! {
    /// Steps that are left within the innermost limit; `None` outside of all limits.
    static STEPS_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// An expression cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ExpressionError(String);

impl From<regex::Error> for ExpressionError {
    fn from(error: regex::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<sluice_expression::ExpressionError> for ExpressionError {
    fn from(error: sluice_expression::ExpressionError) -> Self {
        Self(error.to_string())
    }
}

/// A limit in force. When it is dropped, also by a panic, the outer limit is in force again,
/// reduced by the steps that were used.
struct LimitInForce {
    outer: Option<u32>,
    granted: u32,
}

impl LimitInForce {
    fn begin(steps: u32) -> Self {
        let outer = STEPS_LEFT.get();
        let granted = outer.map_or(steps, |left| left.min(steps));
        STEPS_LEFT.set(Some(granted));
        Self { outer, granted }
    }

    fn left(&self) -> u32 {
        STEPS_LEFT.get().unwrap_or(self.granted)
    }
}

impl Drop for LimitInForce {
    fn drop(&mut self) {
        let used = self.granted.saturating_sub(self.left());
        STEPS_LEFT.set(self.outer.map(|left| left.saturating_sub(used)));
    }
}

/// Runs `work`, whose expressions may take `steps`, and no more than a surrounding limit has left,
/// which they reduce. Afterwards `steps` are those that are left; 0 if the limit was reached.
pub(crate) fn within_steps<T>(steps: &mut u32, work: impl FnOnce() -> T) -> T {
    let limit = LimitInForce::begin(*steps);
    let result = work();
    *steps = limit.left();
    result
}

/// Returns whether the request of this thread has reached its step limit; false outside of a
/// request.
pub(crate) fn is_limit_reached() -> bool {
    STEPS_LEFT.get() == Some(0)
}

/// Compiles a regular expression for bytes within the size limits. As in nginx, it matches bytes
/// and not characters: `.` is any byte except a line feed, and `\w` and `\d` are ASCII. Otherwise a
/// byte that is not UTF-8 would keep an expression from matching that refuses requests. One that
/// needs Unicode, such as `\p{Greek}` or `[äöü]`, matches characters.
pub(crate) fn bounded_bytes_regex(pattern: &str) -> Result<Regex, regex::Error> {
    regex::bytes::RegexBuilder::new(pattern)
        .unicode(needs_characters(pattern))
        .size_limit(SIZE_LIMIT)
        .dfa_size_limit(SIZE_LIMIT)
        .build()
}

/// A compiled [`ExtendedRegex`].
#[derive(Debug)]
pub(crate) enum ExtendedMatcher {
    /// Each part is matched in linear time.
    Linear {
        pattern: Regex,
        /// Each condition, with a flag: true if it must not match.
        conditions: Box<[(Regex, bool)]>,
    },
    Backtracking(BacktrackingRegex),
}

/// The places of the groups of a match, with the whole match first.
pub(crate) type GroupRanges = Vec<Option<Range<usize>>>;

impl ExtendedMatcher {
    /// Compiles the expression.
    ///
    /// # Errors
    /// A part is malformed or too large.
    pub(crate) fn compile(regex: &ExtendedRegex) -> Result<Self, ExpressionError> {
        if regex.backtracks {
            return Ok(Self::Backtracking(BacktrackingRegex::compile(&regex.pattern)?));
        }
        let conditions = regex
            .conditions
            .iter()
            .map(|condition| Ok((bounded_bytes_regex(&condition.pattern)?, condition.negative)))
            .collect::<Result<_, regex::Error>>()?;
        Ok(Self::Linear { pattern: bounded_bytes_regex(&regex.pattern)?, conditions })
    }

    /// Returns whether the expression matches anywhere in a value, or reached the limit.
    pub(crate) fn is_match(&self, value: &[u8]) -> bool {
        match self {
            Self::Linear { pattern, conditions } => pattern.is_match(value) && hold(conditions, value),
            Self::Backtracking(regex) => search(regex, value).map_or(true, |found| found.is_some()),
        }
    }

    /// Returns the places of the groups of a match; `None` without one, and if the expression
    /// reached the limit.
    pub(crate) fn groups(&self, value: &[u8]) -> Option<GroupRanges> {
        match self {
            Self::Linear { pattern, conditions } => {
                let captures = pattern.captures(value).filter(|_| hold(conditions, value))?;
                Some(captures.iter().map(|group| Some(group?.range())).collect())
            }
            Self::Backtracking(regex) => search(regex, value).ok()?,
        }
    }

    /// Returns the number of groups, including the whole match.
    pub(crate) fn group_count(&self) -> usize {
        match self {
            Self::Linear { pattern, .. } => pattern.captures_len(),
            Self::Backtracking(regex) => regex.group_count(),
        }
    }

    /// Returns the name of each group; the first is the whole match.
    pub(crate) fn group_names(&self) -> Vec<Option<&str>> {
        match self {
            Self::Linear { pattern, .. } => pattern.capture_names().collect(),
            Self::Backtracking(regex) => regex.group_names().collect(),
        }
    }
}

fn hold(conditions: &[(Regex, bool)], value: &[u8]) -> bool {
    conditions.iter().all(|(condition, negative)| condition.is_match(value) != *negative)
}

/// Searches with the steps that the request has left; outside of a request, with those of a new
/// limit.
fn search(regex: &BacktrackingRegex, value: &[u8]) -> Result<Option<GroupRanges>, StepLimitReached> {
    let left = STEPS_LEFT.get();
    let mut steps = left.unwrap_or(STEP_LIMIT);
    let found = regex.search(value, &mut steps);
    STEPS_LEFT.set(left.map(|_| steps));
    found
}

#[cfg(test)]
mod tests;
