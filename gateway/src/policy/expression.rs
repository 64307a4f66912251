//! Expressions that are searched in a value.

use std::ops::Range;

use regex::bytes::Regex;

use super::assigned::Assigned;
use super::error::PolicyError;
use crate::expression::{ExtendedMatcher, bounded_bytes_regex};

/// An expression that is searched in a value.
#[derive(Debug)]
pub(super) enum Expression {
    Plain(Regex),
    Extended(ExtendedMatcher),
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// It is malformed or too large.
    pub(super) fn compile(expression: &sluice_config::Expression) -> Result<Self, PolicyError> {
        let failed = |text: &str| PolicyError::Expression(text.to_owned());
        Ok(match expression {
            sluice_config::Expression::Plain(text) => {
                Self::Plain(bounded_bytes_regex(text).map_err(|_| failed(text))?)
            }
            sluice_config::Expression::Extended(regex) => {
                Self::Extended(ExtendedMatcher::compile(regex).map_err(|_| failed(&regex.text))?)
            }
        })
    }

    /// Whether it matches anywhere in a value.
    pub(super) fn is_match(&self, value: &[u8]) -> bool {
        match self {
            Self::Plain(regex) => regex.is_match(value),
            Self::Extended(regex) => regex.is_match(value),
        }
    }

    fn group_count(&self) -> usize {
        match self {
            Self::Plain(regex) => regex.captures_len(),
            Self::Extended(regex) => regex.group_count(),
        }
    }

    /// The same; keeps the groups of a match.
    pub(super) fn search(&self, value: &[u8], assigned: &mut Assigned) -> bool {
        if self.group_count() == 1 {
            let matches = self.is_match(value);
            if matches {
                assigned.groups.clear();
            }
            return matches;
        }
        let (ranges, names) = match self {
            Self::Plain(regex) => {
                let captures = regex.captures(value);
                let ranges = captures.map(|groups| groups.iter().map(|group| Some(group?.range())).collect());
                (ranges, regex.capture_names().collect())
            }
            Self::Extended(regex) => (regex.groups(value), regex.group_names()),
        };
        let Some(ranges) = ranges else { return false };
        assigned.groups.clear();
        for (number, (range, name)) in ranges.into_iter().zip(names).enumerate().skip(1) {
            let text = range.map_or(&b""[..], |range: Range<usize>| &value[range]);
            assigned.groups.push((number.to_string().into(), text.to_vec()));
            assigned.groups.extend(name.map(|name| (name.into(), text.to_vec())));
        }
        true
    }
}
