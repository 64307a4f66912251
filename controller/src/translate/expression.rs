//! Regular expressions of paths: their validity and their groups.
//!
//! A host is recomputed whenever one of its inputs changes, such as an EndpointSlice or another
//! Ingress, while its expressions stay the same. Compiling one takes up to a millisecond, so the
//! results are cached, errors included.

mod look_ahead;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use sluice_config::{LookAheadRegex, SimpleExpression};

/// Maximum size of a compiled expression in bytes; well below the data plane's limit.
pub(crate) const EXPRESSION_LIMIT: usize = 256 << 10;

/// Maximum number of cached expressions. Beyond it the cache is cleared.
const MOST: usize = 16 << 10;

/// Cache of expressions.
#[derive(Debug, Default)]
pub(crate) struct Expressions {
    known: RefCell<HashMap<Box<str>, ReadExpression>>,
}

/// An expression, or the reason why it is invalid.
type ReadExpression = Result<Arc<Expression>, Arc<str>>;

/// A valid expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expression {
    /// Number of groups, including the whole match.
    pub(crate) groups: usize,
    /// Numbers of the named groups.
    pub(crate) names: HashMap<Box<str>, usize>,
    /// The parts that are searched, if it contains look-ahead.
    pub(crate) look_ahead: Option<Arc<LookAheadRegex>>,
}

impl Expressions {
    /// Returns the properties of an expression.
    ///
    /// # Errors
    /// The expression is invalid; the reason has one line.
    pub(crate) fn read(&self, pattern: &str) -> Result<Arc<Expression>, Arc<str>> {
        if let Some(known) = self.known.borrow().get(pattern) {
            return known.clone();
        }
        let read = Expression::read(pattern).map(Arc::new).map_err(Into::into);
        let mut known = self.known.borrow_mut();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(pattern.into(), read.clone());
        read
    }
}

impl Expression {
    /// Parses an expression without the cache.
    ///
    /// # Errors
    /// The expression is invalid; the reason has one line.
    pub(crate) fn read(pattern: &str) -> Result<Self, String> {
        if let Some(simple) = SimpleExpression::of(pattern) {
            return Ok(Self { groups: simple.groups(), names: HashMap::new(), look_ahead: None });
        }
        let fault = match compile(pattern) {
            Ok(compiled) => return Ok(Self::of(&compiled, None)),
            Err(fault) => fault,
        };
        let Some(apart) = look_ahead::take_apart(pattern) else { return Err(fault) };
        apart.conditions.iter().try_for_each(|condition| compile(&condition.pattern).map(drop))?;
        Ok(Self::of(&compile(&apart.pattern)?, Some(Arc::new(apart))))
    }

    fn of(compiled: &regex::Regex, look_ahead: Option<Arc<LookAheadRegex>>) -> Self {
        let names = compiled.capture_names().enumerate();
        let names = names.filter_map(|(at, name)| Some((name?.into(), at))).collect();
        Self { groups: compiled.captures_len(), names, look_ahead }
    }
}

/// Compiles an expression.
///
/// # Errors
/// The expression is invalid; the reason has one line.
pub(crate) fn compile(pattern: &str) -> Result<regex::Regex, String> {
    regex::RegexBuilder::new(pattern).size_limit(EXPRESSION_LIMIT).build().map_err(|error| match &error {
        regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
        _ => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.trim().trim_start_matches("error: ").to_owned()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_compiled_once_whether_it_can_be_read_or_not() {
        let expressions = Expressions::default();
        let read = expressions.read("/a(?<tail>b)(c)").unwrap();
        assert_eq!((read.groups, read.names.get("tail")), (3, Some(&1)));
        assert!(Arc::ptr_eq(&read, &expressions.read("/a(?<tail>b)(c)").unwrap()));
        let reason = expressions.read("/x{1000}{1000}{1000}").unwrap_err();
        assert_eq!(&*reason, "it is too large");
        assert!(Arc::ptr_eq(&reason, &expressions.read("/x{1000}{1000}{1000}").unwrap_err()));
        assert!(expressions.read("/a(?<!b)").unwrap_err().contains("look-around"));
        assert_eq!(&*expressions.read("(?i)^/(?!x{1000}{1000}{1000})").unwrap_err(), "it is too large");
    }

    #[test]
    fn the_cache_is_bounded() {
        let expressions = Expressions::default();
        for number in 0..=MOST {
            expressions.read(&format!("/{number}")).unwrap();
        }
        assert!(expressions.known.borrow().len() <= MOST);
    }
}
