//! Expressions that the linear-time engine does not read: look-around, atomic groups, possessive
//! quantifiers and back-references. The data plane searches them by backtracking, within a limit.

use std::sync::Arc;

use sluice_config::ExtendedRegex;
use sluice_expression::BacktrackingRegex;

use super::Expression;

/// Reads an expression. `text` is the original of `pattern`.
///
/// # Errors
/// Why it cannot be read, in a line.
pub(super) fn read(text: &str, pattern: &str) -> Result<Expression, String> {
    let compiled = BacktrackingRegex::compile(pattern).map_err(|error| error.to_string())?;
    let extended = ExtendedRegex {
        text: text.into(),
        pattern: pattern.into(),
        conditions: Vec::new(),
        backtracks: true,
    };
    Ok(Expression {
        groups: compiled.group_count(),
        names: compiled.named_groups(),
        extended: Some(Arc::new(extended)),
    })
}
