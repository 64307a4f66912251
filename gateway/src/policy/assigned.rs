//! What the programs of snippets have assigned to a request.

use std::sync::Arc;

use super::outgoing::Outgoing;
use crate::message::target;
use crate::router::normalise;

/// Values that a program has assigned so far.
#[derive(Debug, Default)]
pub struct Assigned {
    variables: Vec<(Arc<str>, Vec<u8>)>,
    /// Groups of the last expression that was searched, from the first on.
    groups: Vec<Vec<u8>>,
    /// The scope of the last `if` whose condition held.
    pub scope: usize,
    /// The path and query, if a program has changed them.
    pub uri: Option<Arc<RewrittenUri>>,
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

/// The numbers and names of the groups of an expression that have one. The names are in lower case,
/// as those of variables, because nginx compares them without case.
#[derive(Debug)]
pub(super) struct GroupNames(Box<[(usize, Arc<str>)]>);

impl GroupNames {
    /// `names` has the name of each group; the first is the whole match.
    pub(super) fn new(names: &[Option<&str>]) -> Self {
        let named = names.iter().enumerate();
        Self(
            named.filter_map(|(number, name)| Some((number, (*name)?.to_ascii_lowercase().into()))).collect(),
        )
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Arc<str>)> {
        self.0.iter().map(|(number, name)| (*number, name))
    }
}

impl RewrittenUri {
    /// `None` if the path is not valid.
    pub fn new(outgoing: Outgoing) -> Option<Self> {
        let path = outgoing.target().split('?').next().unwrap_or_default();
        let path = normalise(path).ok()?.into_owned();
        Some(Self { outgoing, path })
    }

    /// The query.
    pub fn query(&self) -> Option<&str> {
        target::split(self.outgoing.target()).1
    }
}

impl<'r> ProgramInput<'r> {
    /// The target and the normalised path: those that a program has set, if it has.
    pub(super) fn or(self, uri: Option<&'r RewrittenUri>) -> (&'r str, &'r str) {
        uri.map_or((self.target, self.path), |uri| (uri.outgoing.target(), &uri.path))
    }
}

impl Assigned {
    /// The target and the normalised path in effect.
    pub fn uri<'a>(&'a self, input: ProgramInput<'a>) -> (&'a str, &'a str) {
        input.or(self.uri.as_deref())
    }

    /// The value of a variable; empty before its `set`, and before a match of the expression whose
    /// group has its name.
    pub fn variable(&self, name: &str) -> &[u8] {
        self.variables.iter().find(|(known, _)| **known == *name).map_or(&[], |(_, value)| value)
    }

    /// The text of a group, by its number, of the last expression that was searched; empty if that
    /// did not match.
    pub fn group(&self, number: &str) -> &[u8] {
        let number = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        number.and_then(|at| self.groups.get(at)).map_or(&[], |text| text)
    }

    /// Replaces the groups.
    pub fn keep_groups(&mut self, groups: Vec<Vec<u8>>) {
        self.groups = groups;
    }

    /// Keeps the groups of a match. Those with a name are variables, and keep their values until
    /// these are set again (`ngx_http_regex_exec`).
    pub(super) fn keep_match(&mut self, groups: Vec<Vec<u8>>, names: &GroupNames) {
        for (number, name) in names.iter() {
            self.set(name, number.checked_sub(1).and_then(|at| groups.get(at)).cloned().unwrap_or_default());
        }
        self.keep_groups(groups);
    }

    pub(super) fn set(&mut self, name: &Arc<str>, value: Vec<u8>) {
        match self.variables.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.variables.push((name.clone(), value)),
        }
    }
}
