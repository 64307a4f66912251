//! Errors of compiling a host.

use crate::expression::ExpressionError;

/// A match that the router does not support. The whole host is closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouterError {
    /// A regular expression is malformed, or too large when compiled.
    #[error("regular expression `{pattern}` cannot be used ({reason}): correct it, or make it smaller")]
    Regex {
        /// The expression as written in the object.
        pattern: String,
        /// The error of the regex engine, on one line.
        reason: String,
    },
    /// A match requires a header with an invalid name.
    #[error("header match on `{0}`: this is not a header name (RFC 9110 section 5.1); correct the name")]
    HeaderName(String),
}

impl RouterError {
    /// Converts the engine's error, whose text has several lines; the last one states the reason.
    pub(super) fn regex(pattern: &str, error: &regex::Error) -> Self {
        let reason = match error {
            regex::Error::CompiledTooBig(limit) => format!("larger than {limit} bytes when compiled"),
            other => {
                let text = other.to_string();
                let last = text.lines().last().unwrap_or_default();
                last.strip_prefix("error: ").unwrap_or(last).to_owned()
            }
        };
        Self::Regex { pattern: pattern.to_owned(), reason }
    }

    /// The same for an expression that is searched by backtracking.
    pub(super) fn expression(pattern: &str, error: &ExpressionError) -> Self {
        Self::Regex { pattern: pattern.to_owned(), reason: error.to_string() }
    }
}
