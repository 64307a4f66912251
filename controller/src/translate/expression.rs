//! Regular expressions of paths: whether they can be read, and which groups they have.
//!
//! A host is computed anew whenever something that it reads changes, such as an EndpointSlice or another Ingress, and
//! its expressions are as they were. To compile one costs up to a millisecond and says the same each time, also where
//! it says that the expression cannot be read; so what it has said is remembered.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes that an expression may have when compiled; well below what the data plane allows.
pub(crate) const EXPRESSION_LIMIT: usize = 256 << 10;

/// Expressions that are remembered. When there are more, all are forgotten.
const MOST: usize = 16 << 10;

/// What is known of expressions.
#[derive(Debug, Default)]
pub(crate) struct Expressions {
    known: RefCell<HashMap<Box<str>, ReadExpression>>,
}

/// The groups of an expression, or why it cannot be read.
type ReadExpression = Result<Arc<Groups>, Arc<str>>;

/// The groups of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    /// How many there are, with the whole as the first.
    pub(crate) count: usize,
    /// Those with a name, by number.
    pub(crate) names: HashMap<Box<str>, usize>,
}

impl Expressions {
    /// The groups of an expression.
    ///
    /// # Errors
    /// Why it cannot be read, in a line.
    pub(crate) fn groups(&self, pattern: &str) -> Result<Arc<Groups>, Arc<str>> {
        if let Some(known) = self.known.borrow().get(pattern) {
            return known.clone();
        }
        let read = compile(pattern).map(|compiled| Arc::new(Groups::of(&compiled))).map_err(Into::into);
        let mut known = self.known.borrow_mut();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(pattern.into(), read.clone());
        read
    }
}

impl Groups {
    fn of(compiled: &regex::Regex) -> Self {
        let names = compiled.capture_names().enumerate();
        let names = names.filter_map(|(at, name)| Some((name?.into(), at))).collect();
        Self { count: compiled.captures_len(), names }
    }
}

/// Compiles an expression.
///
/// # Errors
/// Why it cannot be, in a line.
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
        let groups = expressions.groups("/a(?<tail>b)(c)").unwrap();
        assert_eq!((groups.count, groups.names.get("tail")), (3, Some(&1)));
        assert!(Arc::ptr_eq(&groups, &expressions.groups("/a(?<tail>b)(c)").unwrap()));
        let reason = expressions.groups("/x{1000}{1000}{1000}").unwrap_err();
        assert_eq!(&*reason, "it is too large");
        assert!(Arc::ptr_eq(&reason, &expressions.groups("/x{1000}{1000}{1000}").unwrap_err()));
        assert!(expressions.groups("/a(?!b)").unwrap_err().contains("look-around"));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let expressions = Expressions::default();
        for number in 0..=MOST {
            expressions.groups(&format!("/{number}")).unwrap();
        }
        assert!(expressions.known.borrow().len() <= MOST);
    }
}
