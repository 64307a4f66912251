//! Regular expressions with look-ahead, in paths, block lists and header values of canaries.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A regular expression with look-ahead, split into parts that each match in linear time. It
/// matches a text if the pattern matches and all conditions hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LookAheadRegex {
    /// The original text, for messages.
    pub text: Arc<str>,
    /// The expression without look-ahead. Its group numbers are those of the original.
    pub pattern: Arc<str>,
    /// The conditions from the look-ahead groups.
    pub conditions: Vec<LookAhead>,
}

/// A condition that an expression must, or must not, match.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LookAhead {
    /// A linear-time regular expression.
    pub pattern: Arc<str>,
    /// Whether the expression must not match.
    pub negative: bool,
}
