//! What the programs of snippets have assigned to a request.

use std::sync::Arc;

use super::outgoing::Outgoing;
use crate::message::target;
use crate::router::normalise;

/// Values that a program has assigned so far.
#[derive(Debug, Default)]
pub struct Assigned {
    variables: Vec<(Arc<str>, Vec<u8>)>,
    /// Groups of the last expression that matched, by number and by name.
    pub(super) groups: Vec<(Box<str>, Vec<u8>)>,
    /// The scope of the last `if` whose condition held.
    pub scope: usize,
    /// The path and query, if a program has changed them.
    pub uri: Option<RewrittenUri>,
}

/// The path and query that a program runs for, unless it has changed them.
#[derive(Clone, Copy, Debug)]
pub struct ProgramInput<'r> {
    /// The normalised path.
    pub path: &'r str,
    /// Path and query as the client sent them.
    pub target: &'r str,
}

/// The path and query that a program has set.
#[derive(Debug)]
pub struct RewrittenUri {
    /// For the endpoint.
    pub outgoing: Outgoing,
    /// The normalised path.
    pub path: String,
}

impl RewrittenUri {
    /// `None` if the path is not valid.
    pub(super) fn new(outgoing: Outgoing) -> Option<Self> {
        let path = outgoing.target().split('?').next().unwrap_or_default();
        let path = normalise(path).ok()?.into_owned();
        Some(Self { outgoing, path })
    }

    /// The query.
    pub fn query(&self) -> Option<&str> {
        target::split(self.outgoing.target()).1
    }
}

impl Assigned {
    /// The target and the normalised path in effect.
    pub fn uri<'a>(&'a self, input: ProgramInput<'a>) -> (&'a str, &'a str) {
        match &self.uri {
            Some(uri) => (uri.outgoing.target(), &uri.path),
            None => (input.target, input.path),
        }
    }

    /// The value of a variable; empty before its `set`.
    pub fn variable(&self, name: &str) -> &[u8] {
        self.variables.iter().find(|(known, _)| **known == *name).map_or(&[], |(_, value)| value)
    }

    /// The text of a group of the last expression that matched.
    pub fn group(&self, name: &str) -> &[u8] {
        self.groups.iter().find(|(known, _)| **known == *name).map_or(&[], |(_, text)| text)
    }

    pub(super) fn set(&mut self, name: &Arc<str>, value: Vec<u8>) {
        match self.variables.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.variables.push((name.clone(), value)),
        }
    }
}
