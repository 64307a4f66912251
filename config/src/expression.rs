//! Regular expressions of rules: in paths, rewrites, block lists, header values of canaries and
//! snippets.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A regular expression in one of two forms.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Expression {
    /// An expression that the linear-time engine reads.
    Plain(Arc<str>),
    /// An expression with extended syntax.
    Extended(Arc<ExtendedRegex>),
}

/// A regular expression with syntax that the linear-time engine does not read. It matches a text if
/// the pattern matches and all conditions hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExtendedRegex {
    /// The original text, for messages.
    pub text: Arc<str>,
    /// The expression in the syntax of its engine; without look-ahead if there are conditions. Its
    /// group numbers are those of the original.
    pub pattern: Arc<str>,
    /// The conditions from look-ahead groups, each of which matches in linear time.
    pub conditions: Vec<LookAhead>,
    /// Whether the pattern is searched by backtracking, within the data plane's step limit per
    /// request.
    pub backtracks: bool,
}

/// A condition that an expression must, or must not, match.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LookAhead {
    /// A linear-time regular expression.
    pub pattern: Arc<str>,
    /// Whether the expression must not match.
    pub negative: bool,
}
