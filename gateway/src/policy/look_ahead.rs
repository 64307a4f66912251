//! Expressions with look-ahead, of which each part is searched in linear time.

use regex::bytes::Regex;
use sluice_config::LookAheadRegex;

use crate::router::bounded_bytes_regex;

/// A compiled [`LookAheadRegex`].
#[derive(Debug)]
pub(super) struct LookAheadMatcher {
    pattern: Regex,
    /// Each with whether it must not be found.
    conditions: Box<[(Regex, bool)]>,
}

impl LookAheadMatcher {
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
