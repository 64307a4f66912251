//! A map from host patterns, looked up by host name: exact, then one-label wildcard, then the
//! longest suffix, then expressions, then any.
//!
//! The map is persistent: a clone shares all entries, and a change copies a path of O(log n). It is
//! used both for the listeners of a group and for the hosts of a listener.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};

use sluice_config::{HostName, HostPattern};

use super::map::Map;
use crate::expression::ByExpression;

/// Bytes of the longest DNS name as text (RFC 1035 §2.3.4). Hosts that are longer have no suffixes:
/// a head has room for thousands of labels, each of which would be looked up.
const LONGEST_NAME: usize = 253;

/// Values by host pattern.
#[derive(Clone)]
pub(super) struct Names<V> {
    exact: Map<Name, V>,
    one_label: Map<Name, V>,
    suffix: Map<Name, V>,
    expressions: ByExpression<V>,
    any: Option<V>,
}

/// A host name that can be looked up by a `str`.
#[derive(Clone, PartialEq, Eq)]
struct Name(HostName);

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.0.as_str()
    }
}

impl Hash for Name {
    fn hash<S: Hasher>(&self, state: &mut S) {
        self.0.as_str().hash(state);
    }
}

impl<V: Clone> Names<V> {
    pub(super) fn insert(&mut self, pattern: &HostPattern, value: V) {
        match pattern {
            HostPattern::Exact(name) => drop(self.exact.insert(Name(name.clone()), value)),
            HostPattern::OneLabel(name) => drop(self.one_label.insert(Name(name.clone()), value)),
            HostPattern::Suffix(name) => drop(self.suffix.insert(Name(name.clone()), value)),
            HostPattern::Regex(regex) => drop(self.expressions.set(regex, Some(value))),
            HostPattern::Any => self.any = Some(value),
        }
    }

    pub(super) fn remove(&mut self, pattern: &HostPattern) -> Option<V> {
        match pattern {
            HostPattern::Exact(name) => self.exact.remove(name.as_str()),
            HostPattern::OneLabel(name) => self.one_label.remove(name.as_str()),
            HostPattern::Suffix(name) => self.suffix.remove(name.as_str()),
            HostPattern::Regex(regex) => self.expressions.set(regex, None),
            HostPattern::Any => self.any.take(),
        }
    }

    pub(super) fn get(&self, pattern: &HostPattern) -> Option<&V> {
        match pattern {
            HostPattern::Exact(name) => self.exact.get(name.as_str()),
            HostPattern::OneLabel(name) => self.one_label.get(name.as_str()),
            HostPattern::Suffix(name) => self.suffix.get(name.as_str()),
            HostPattern::Regex(regex) => self.expressions.get(regex),
            HostPattern::Any => self.any.as_ref(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.exact.is_empty()
            && self.one_label.is_empty()
            && self.suffix.is_empty()
            && self.expressions.is_empty()
            && self.any.is_none()
    }

    /// Returns all values whose pattern covers `host`, the most specific first.
    pub(super) fn matching<'t, 'h>(&'t self, host: &'h str) -> Matching<'t, 'h, V> {
        Matching { names: self, host, stage: Stage::Exact }
    }

    /// Returns all entries in arbitrary order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (HostPattern, &V)> {
        let exact = self.exact.iter().map(|(name, value)| (HostPattern::Exact(name.0.clone()), value));
        let one_label =
            self.one_label.iter().map(|(name, value)| (HostPattern::OneLabel(name.0.clone()), value));
        let suffix = self.suffix.iter().map(|(name, value)| (HostPattern::Suffix(name.0.clone()), value));
        let any = self.any.iter().map(|value| (HostPattern::Any, value));
        let expressions = self.expressions.iter();
        let expressions = expressions.map(|(regex, value)| (HostPattern::Regex(regex.clone()), value));
        exact.chain(one_label).chain(suffix).chain(expressions).chain(any)
    }
}

impl<V> Default for Names<V> {
    fn default() -> Self {
        Self {
            exact: Map::default(),
            one_label: Map::default(),
            suffix: Map::default(),
            expressions: ByExpression::default(),
            any: None,
        }
    }
}

/// The values whose patterns cover one host. They are looked up lazily.
#[derive(Clone)]
pub(super) struct Matching<'t, 'h, V> {
    names: &'t Names<V>,
    host: &'h str,
    stage: Stage<'h>,
}

/// The next lookup to perform.
#[derive(Clone, Copy)]
enum Stage<'h> {
    Exact,
    OneLabel,
    /// Tries the suffixes of this name, which follows a dot of the host.
    Suffix(&'h str),
    /// Tries the expressions from this index on.
    Expression(usize),
    Any,
    End,
}

impl<'t, V: Clone> Iterator for Matching<'t, '_, V> {
    type Item = &'t V;

    fn next(&mut self) -> Option<&'t V> {
        loop {
            let found;
            (found, self.stage) = match self.stage {
                Stage::Exact => (lookup(&self.names.exact, self.host), Stage::OneLabel),
                Stage::OneLabel => match parent(self.host) {
                    Some(parent) => (lookup(&self.names.one_label, parent), Stage::Suffix(parent)),
                    None => (None, Stage::Expression(0)),
                },
                Stage::Suffix(_) if self.names.suffix.is_empty() || self.host.len() > LONGEST_NAME => {
                    (None, Stage::Expression(0))
                }
                Stage::Suffix(name) => {
                    let next = name.split_once('.');
                    let next = next.map_or(Stage::Expression(0), |(_, rest)| Stage::Suffix(rest));
                    (lookup(&self.names.suffix, name), next)
                }
                Stage::Expression(from) => match self.names.expressions.next_match(from, self.host) {
                    Some((found, next)) => (Some(found), Stage::Expression(next)),
                    None => (None, Stage::Any),
                },
                Stage::Any => (self.names.any.as_ref(), Stage::End),
                Stage::End => return None,
            };
            if found.is_some() {
                return found;
            }
        }
    }
}

/// Looks up a name, without hashing it if the map is empty, as in the listeners of the Ingress
/// group.
fn lookup<'a, V: Clone>(map: &'a Map<Name, V>, name: &str) -> Option<&'a V> {
    if map.is_empty() { None } else { map.get(name) }
}

/// Returns the host without its first label; `None` if that label is empty or the only one.
fn parent(host: &str) -> Option<&str> {
    host.split_once('.').filter(|(label, _)| !label.is_empty()).map(|(_, parent)| parent)
}
