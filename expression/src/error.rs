//! Errors of compiling an expression.

/// Why an expression cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// It is malformed; the reason in one line.
    #[error("{0}")]
    Malformed(String),
    /// It would need too many instructions.
    #[error("it is too large")]
    TooLarge,
    /// It uses a construct that this engine does not have.
    #[error("{0} is not supported")]
    NotSupported(&'static str),
    /// A look-behind whose length is not fixed, which PCRE refuses too.
    #[error("a look-behind must have a fixed length")]
    VariableLookBehind,
    /// A reference to a group that does not exist.
    #[error("it refers to group {0}, which does not exist")]
    NoSuchGroup(usize),
}

/// A search reached its limit: neither a match nor its absence is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the search reached its step limit")]
pub struct StepLimitReached;
