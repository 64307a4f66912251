//! Problems: what is wrong with the input, in words that status, Events, admission, `sluice check`,
//! introspection and the log all print.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::name::ObjectRef;

/// One thing that is wrong with one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Problem {
    /// The object to look at.
    pub object: ObjectRef,
    /// The field as a path: `spec.rules[0].http.paths[1].path`, `metadata.annotations[...]`, `data[keep-alive]`.
    pub field: String,
    /// How bad.
    pub severity: Severity,
    /// What is wrong, with the value in question.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// Something is not served as the object asks.
    Error,
    /// Served as asked, yet worth knowing.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: ", self.severity, self.object)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}; {}", self.message, self.remedy)
    }
}
