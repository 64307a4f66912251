//! Regular expressions of PCRE that a linear-time engine cannot search: look-around, atomic groups,
//! possessive quantifiers and back-references; and those that need no engine
//! ([`SimpleExpression`]).
//!
//! An engine that backtracks can take exponential time, and clients choose the text. This one
//! counts the instructions that it executes, each of which takes a bounded time, and gives up at
//! the caller's limit. Engines that count only their steps back do not bound the time: a single
//! step may run a search over the whole text (`docs/decisions/routing.md`).
//!
//! `fancy-regex` parses the expressions; its own matcher is not used.

mod characters;
mod compiler;
mod error;
mod matcher;
#[cfg(test)]
mod module_cycles;
mod pcre;
mod program;
mod simple_expression;

use std::collections::HashMap;

pub use self::error::{ExpressionError, StepLimitReached};
pub use self::matcher::Groups;
pub use self::pcre::{has_possessive_quantifier, translate};
use self::program::Program;
pub use self::simple_expression::{SimpleExpression, SimpleMatch};

/// Returns whether an expression cannot match bytes, because it needs Unicode: `\p{Greek}`, or a
/// class with letters beyond ASCII.
pub fn needs_characters(pattern: &str) -> bool {
    let mut parser = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build();
    parser.parse(pattern).is_err()
}

/// A compiled expression.
#[derive(Debug)]
pub struct BacktrackingRegex {
    program: Program,
    /// The name of each group, if it has one. The first is the whole match.
    names: Vec<Option<Box<str>>>,
}

impl BacktrackingRegex {
    /// Compiles an expression in the syntax that [`translate`] returns.
    ///
    /// # Errors
    /// It is malformed, too large, or has recursion, control verbs or a look-behind of variable
    /// length.
    pub fn compile(pattern: &str) -> Result<Self, ExpressionError> {
        let (program, named) = compiler::compile(pattern)?;
        let mut names = vec![None; program.groups];
        for (name, number) in named {
            names[number] = Some(name);
        }
        Ok(Self { program, names })
    }

    /// Searches a text for the first match. Each step reduces `steps`.
    ///
    /// # Errors
    /// No step is left.
    pub fn search(&self, text: &[u8], steps: &mut u32) -> Result<Option<Groups>, StepLimitReached> {
        matcher::search(&self.program, text, steps)
    }

    /// Returns the number of groups, including the whole match.
    pub fn group_count(&self) -> usize {
        self.names.len()
    }

    /// Returns the name of each group; the first is the whole match.
    pub fn group_names(&self) -> impl Iterator<Item = Option<&str>> {
        self.names.iter().map(Option::as_deref)
    }

    /// Returns the numbers of the named groups.
    pub fn named_groups(&self) -> HashMap<Box<str>, usize> {
        let numbered = self.names.iter().enumerate();
        numbered.filter_map(|(number, name)| Some((name.clone()?, number))).collect()
    }
}

#[cfg(test)]
mod tests;
