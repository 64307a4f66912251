//! Regular expressions of paths: their validity and their groups.
//!
//! A host is recomputed whenever one of its inputs changes, such as an EndpointSlice or another
//! Ingress, while its expressions stay the same. Compiling one takes up to a millisecond, so the
//! results are cached, errors included.

mod backtracking;
mod look_ahead;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use sluice_config::ExtendedRegex;
use sluice_expression::SimpleExpression;

/// Maximum size of a compiled expression in bytes; well below the data plane's limit.
pub(crate) const EXPRESSION_LIMIT: usize = 256 << 10;

/// The fault of an expression that is read, and too large.
const TOO_LARGE: &str = "it is too large";

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
    /// How it is searched, where the linear-time engine does not read it.
    pub(crate) extended: Option<Arc<ExtendedRegex>>,
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
            return Ok(Self { groups: simple.groups(), names: HashMap::new(), extended: None });
        }
        let translated = sluice_expression::translate(pattern);
        // The linear-time engine would take a possessive quantifier for two.
        if sluice_expression::has_possessive_quantifier(&translated) {
            return backtracking::read(pattern, &translated);
        }
        let fault = match compile(&translated) {
            Ok(compiled) => return Ok(Self::of(&compiled, linear(pattern, &translated))),
            Err(fault) if fault == TOO_LARGE => return Err(fault),
            Err(fault) => fault,
        };
        if let Some(apart) = look_ahead::take_apart(pattern, &translated) {
            apart.conditions.iter().try_for_each(|condition| compile(&condition.pattern).map(drop))?;
            return Ok(Self::of(&compile(&apart.pattern)?, Some(Arc::new(apart))));
        }
        backtracking::read(pattern, &translated).map_err(|reason| match has_extended_syntax(&translated) {
            true => reason,
            false => fault,
        })
    }

    /// The expression as the data plane gets it. `text` is its original.
    pub(crate) fn in_form(&self, text: &str) -> sluice_config::Expression {
        match &self.extended {
            Some(extended) => sluice_config::Expression::Extended(extended.clone()),
            None => sluice_config::Expression::Plain(text.into()),
        }
    }

    fn of(compiled: &regex::Regex, extended: Option<Arc<ExtendedRegex>>) -> Self {
        let names = compiled.capture_names().enumerate();
        let names = names.filter_map(|(at, name)| Some((name?.into(), at))).collect();
        Self { groups: compiled.captures_len(), names, extended }
    }
}

/// An expression that the linear-time engine reads in another spelling.
fn linear(text: &str, translated: &str) -> Option<Arc<ExtendedRegex>> {
    let extended = || ExtendedRegex {
        text: text.into(),
        pattern: translated.into(),
        conditions: Vec::new(),
        backtracks: false,
    };
    (text != translated).then(|| Arc::new(extended()))
}

/// Whether only the backtracking engine can say what is wrong with an expression.
fn has_extended_syntax(text: &str) -> bool {
    ["(?=", "(?!", "(?<=", "(?<!", "(?>", "(?(", "(?P>", r"\g<", "(*"]
        .iter()
        .any(|start| text.contains(start))
}

/// Compiles an expression.
///
/// # Errors
/// The expression is invalid; the reason has one line.
pub(crate) fn compile(pattern: &str) -> Result<regex::Regex, String> {
    regex::RegexBuilder::new(pattern).size_limit(EXPRESSION_LIMIT).build().map_err(|error| match &error {
        regex::Error::CompiledTooBig(_) => TOO_LARGE.to_owned(),
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
        let backtracking = expressions.read("/a(?<!b)(?<rest>.*)").unwrap();
        assert_eq!((backtracking.groups, backtracking.names.get("rest")), (2, Some(&1)));
        assert!(backtracking.extended.as_ref().is_some_and(|regex| regex.backtracks));
        for bad in ["/a(?<!b", "/a(", "/[b"] {
            assert!(expressions.read(bad).is_err(), "{bad}");
        }
        assert_eq!(&*expressions.read("(?i)^/(?!x{1000}{1000}{1000})").unwrap_err(), "it is too large");
    }

    #[test]
    fn only_syntax_that_needs_it_is_searched_by_backtracking() {
        let backtracks =
            |text: &str| Expression::read(text).unwrap().extended.is_some_and(|regex| regex.backtracks);
        for linear in ["(a+)+$", "^/(?!api)(.*)", "/[*+]+x", r"/a\++", "/a*?b", "/x{2,3}?", "/{id}", "/[[]"] {
            assert!(!backtracks(linear), "{linear}");
        }
        for text in ["/(?<!a)b", "/(?>a+)b", "/a++b", "/a*+", "/a{2}+", r"/(.)\1", "/{id}++", "/x(?=a)|b"] {
            assert!(backtracks(text), "{text}");
        }
    }

    #[test]
    fn a_spelling_of_pcre_is_translated_and_its_original_kept() {
        let read = Expression::read(r"(?i)^/{id}/\Q.\E(x)").unwrap();
        let extended = read.extended.as_ref().unwrap();
        assert_eq!((&*extended.text, &*extended.pattern), (r"(?i)^/{id}/\Q.\E(x)", r"(?i)^/\{id\}/\.(x)"));
        assert_eq!((read.groups, extended.conditions.len()), (2, 0));
    }

    #[test]
    fn a_dollar_matches_before_a_line_feed_that_ends_the_text() {
        let read = Expression::read("^/(admin|private)$").unwrap();
        let pattern = regex::Regex::new(&read.extended.as_ref().unwrap().pattern).unwrap();
        assert!(pattern.is_match("/admin") && pattern.is_match("/private\n"));
        assert!(!pattern.is_match("/admin\n\n") && !pattern.is_match("/admin\n/"));
        let recursion = Expression::read("^/a(?R)?b").unwrap_err();
        assert!(recursion.contains("recursion"), "{recursion}");
    }

    #[test]
    fn the_reason_is_that_of_the_engine_that_would_search_it() {
        for (text, reason) in [
            ("/a(", "unclosed group"),
            ("/(?<!a+)b", "fixed length"),
            ("/(?<x>a(?P>x)?b)", "recursion"),
            ("/(?>a", "parenthesis"),
        ] {
            let fault = Expression::read(text).unwrap_err();
            assert!(fault.contains(reason), "{text}: {fault}");
        }
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
