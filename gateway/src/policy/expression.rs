//! Expressions of snippets and of `map`, which keep the groups of a match.

use std::ops::Range;

use regex::bytes::Regex;

use super::assigned::{Assigned, GroupNames};
use super::error::PolicyError;
use crate::expression::{ExtendedMatcher, bounded_bytes_regex};

/// An expression that is searched in a value.
#[derive(Debug)]
pub(super) struct Expression {
    matcher: Matcher,
    names: GroupNames,
}

#[derive(Debug)]
enum Matcher {
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
                let regex = bounded_bytes_regex(text).map_err(|_| failed(text))?;
                let names: Vec<_> = regex.capture_names().collect();
                Self { names: GroupNames::new(&names), matcher: Matcher::Plain(regex) }
            }
            sluice_config::Expression::Extended(regex) => {
                let matcher = ExtendedMatcher::compile(regex).map_err(|_| failed(&regex.text))?;
                let names = GroupNames::new(&matcher.group_names());
                Self { names, matcher: Matcher::Extended(matcher) }
            }
        })
    }

    /// Whether it matches anywhere in a value.
    pub(super) fn is_match(&self, value: &[u8]) -> bool {
        match &self.matcher {
            Matcher::Plain(regex) => regex.is_match(value),
            Matcher::Extended(regex) => regex.is_match(value),
        }
    }

    fn group_count(&self) -> usize {
        match &self.matcher {
            Matcher::Plain(regex) => regex.captures_len(),
            Matcher::Extended(regex) => regex.group_count(),
        }
    }

    /// The same; keeps the groups of a match. Without one the groups are empty, as in nginx.
    pub(super) fn search(&self, value: &[u8], assigned: &mut Assigned) -> bool {
        let groups = self.groups(value);
        let is_match = groups.is_some();
        match groups {
            Some(groups) => assigned.keep_match(groups, &self.names),
            None => assigned.keep_groups(Vec::new()),
        }
        is_match
    }

    /// The texts of the groups of a match, without the whole match.
    fn groups(&self, value: &[u8]) -> Option<Vec<Vec<u8>>> {
        if self.group_count() == 1 {
            return self.is_match(value).then(Vec::new);
        }
        let text = |range: Option<Range<usize>>| range.map_or_else(Vec::new, |range| value[range].to_vec());
        match &self.matcher {
            Matcher::Plain(regex) => {
                let captures = regex.captures(value)?;
                Some(captures.iter().skip(1).map(|group| text(group.map(|group| group.range()))).collect())
            }
            Matcher::Extended(regex) => Some(regex.groups(value)?.into_iter().skip(1).map(text).collect()),
        }
    }
}
