//! Short hands for making [`Problem`]s: every one names the object, the field, what is wrong and what to do.

use sluice_config::{ObjectRef, Problem, Severity};

/// Something is not served as the object asks.
pub(crate) fn error(
    object: &ObjectRef,
    field: impl Into<String>,
    message: impl Into<String>,
    remedy: impl Into<String>,
) -> Problem {
    problem(Severity::Error, object, field, message, remedy)
}

/// Served as asked, yet worth knowing.
pub(crate) fn warning(
    object: &ObjectRef,
    field: impl Into<String>,
    message: impl Into<String>,
    remedy: impl Into<String>,
) -> Problem {
    problem(Severity::Warning, object, field, message, remedy)
}

fn problem(
    severity: Severity,
    object: &ObjectRef,
    field: impl Into<String>,
    message: impl Into<String>,
    remedy: impl Into<String>,
) -> Problem {
    Problem {
        object: object.clone(),
        field: field.into(),
        severity,
        message: message.into(),
        remedy: remedy.into(),
    }
}
