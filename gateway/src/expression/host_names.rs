//! Values by expressions of host names (`server-alias: ~^...`).

use std::sync::Arc;

use sluice_config::ExtendedRegex;

use super::{ExtendedMatcher, STEP_LIMIT, is_limit_reached, within_steps};

/// Values by expression, in the order of their texts. A clone shares all entries.
#[derive(Clone, Debug)]
pub(crate) struct ByExpression<V>(Arc<[Entry<V>]>);

#[derive(Clone, Debug)]
struct Entry<V> {
    regex: Arc<ExtendedRegex>,
    matcher: Arc<ExtendedMatcher>,
    value: V,
}

impl<V: Clone> ByExpression<V> {
    /// Sets or removes the value of an expression. Returns the previous one.
    pub(crate) fn set(&mut self, regex: &Arc<ExtendedRegex>, value: Option<V>) -> Option<V> {
        let (mut before, mut entries): (Vec<_>, Vec<_>) =
            self.0.iter().cloned().partition(|entry| entry.regex == *regex);
        if let Some(value) = value {
            match ExtendedMatcher::compile(regex) {
                Ok(matcher) => {
                    entries.push(Entry { regex: regex.clone(), matcher: Arc::new(matcher), value });
                }
                // Cannot fail: translation has already compiled it.
                Err(error) => {
                    tracing::error!(expression = &*regex.text, %error, "a host name cannot be used");
                }
            }
        }
        entries.sort_by(|one, other| one.regex.cmp(&other.regex));
        self.0 = entries.into();
        before.pop().map(|entry| entry.value)
    }

    pub(crate) fn get(&self, regex: &ExtendedRegex) -> Option<&V> {
        self.0.iter().find(|entry| *entry.regex == *regex).map(|entry| &entry.value)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the first value from an index on whose expression matches a name in lower case, with
    /// the index of the next one.
    ///
    /// Within a request, the expressions draw on its steps. One that reaches the limit matches, and
    /// the answer to the request is 500. Outside of a request, as in a TLS handshake, each
    /// expression has a limit of its own, and does not match if it reaches it.
    pub(crate) fn next_match(&self, from: usize, name: &str) -> Option<(&V, usize)> {
        let matches = |entry: &Entry<V>| {
            let mut steps = STEP_LIMIT;
            let matches = within_steps(&mut steps, || entry.matcher.is_match(name.as_bytes()));
            matches && (steps > 0 || is_limit_reached())
        };
        let found = self.0.iter().enumerate().skip(from).find(|(_, entry)| matches(entry));
        found.map(|(index, entry)| (&entry.value, index + 1))
    }

    /// All entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<ExtendedRegex>, &V)> {
        self.0.iter().map(|entry| (&entry.regex, &entry.value))
    }
}

impl<V> Default for ByExpression<V> {
    fn default() -> Self {
        Self(Arc::new([]))
    }
}
