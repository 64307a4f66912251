//! Explains for each rule of a host why it matches a request or not.

use std::collections::BTreeSet;
use std::fmt;

use super::{CompiledHost, RequestView};
use crate::expression::{STEP_LIMIT, within_steps};
use crate::message::fields::Fields;
use crate::router::predicate::Missing;

/// The result of matching a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The rule matches and serves the request.
    Matches,
    /// The rule matches, but an earlier rule serves the request.
    TakenBefore,
    /// The path does not match.
    Path,
    /// The method does not match.
    Method,
    /// This header field is missing or has another value.
    Header(String),
    /// This query parameter is missing or has another value.
    Query(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Matches => f.write_str("takes it"),
            Self::TakenBefore => f.write_str("a rule before it takes it"),
            Self::Path => f.write_str("for other paths"),
            Self::Method => f.write_str("for another method"),
            Self::Header(name) => write!(f, "header {name} is missing or different"),
            Self::Query(name) => write!(f, "parameter {name} is missing or different"),
        }
    }
}

impl<T> CompiledHost<T> {
    /// Returns a reason for each rule, in order. [`find`](Self::find) returns the route of the rule
    /// that serves the request.
    pub fn explain(&self, request: &RequestView<'_, impl Fields>) -> Vec<Reason> {
        let candidates = self.paths.candidates(request.path);
        let indexed = candidates.iter().flat_map(|positions| positions.iter().copied());
        let searched = self.regexes.iter().flat_map(|regexes| regexes.all(request.path));
        let mut steps = STEP_LIMIT;
        let right_path: BTreeSet<u32> = within_steps(&mut steps, || indexed.chain(searched).collect());
        let mut taken = false;
        let reason = |(position, entry): (u32, &super::Entry<T>)| {
            if !right_path.contains(&position) {
                return Reason::Path;
            }
            match entry.predicates.as_ref().and_then(|predicates| predicates.missing(request)) {
                Some(Missing::Method) => Reason::Method,
                Some(Missing::Header(name)) => Reason::Header(name.to_string()),
                Some(Missing::Query(name)) => Reason::Query(name.to_owned()),
                None if std::mem::replace(&mut taken, true) => Reason::TakenBefore,
                None => Reason::Matches,
            }
        };
        (0..).zip(&self.rules).map(reason).collect()
    }
}
