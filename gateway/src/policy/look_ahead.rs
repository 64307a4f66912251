//! Regular expressions with look-ahead, each part of which is matched in linear time.

use regex::bytes::Regex;
use sluice_config::LookAheadRegex;

use crate::router::bounded_bytes_regex;

/// A compiled [`LookAheadRegex`].
#[derive(Debug)]
pub(super) struct LookAheadMatcher {
    pattern: Regex,
    /// Each condition, with a flag: true if it must not match.
    conditions: Box<[(Regex, bool)]>,
}

impl LookAheadMatcher {
    /// Compiles the expression.
    ///
    /// # Errors
    /// A part is malformed or too large.
    pub(super) fn compile(regex: &LookAheadRegex) -> Result<Self, regex::Error> {
        let conditions = regex
            .conditions
            .iter()
            .map(|condition| Ok((bounded_bytes_regex(&condition.pattern)?, condition.negative)))
            .collect::<Result<_, regex::Error>>()?;
        Ok(Self { pattern: bounded_bytes_regex(&regex.pattern)?, conditions })
    }

    pub(super) fn is_match(&self, value: &[u8]) -> bool {
        let holds = |(ahead, negative): &(Regex, bool)| ahead.is_match(value) != *negative;
        self.pattern.is_match(value) && self.conditions.iter().all(holds)
    }
}
