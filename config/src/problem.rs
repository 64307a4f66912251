//! Problems of the input. The log, `sluice check`, introspection, metrics, status, Events and
//! admission all print the same value.

mod code;
mod view;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use code::{Class, Code};
pub use view::ProblemView;

use crate::name::ObjectRef;
use crate::uid::Uid;

/// A problem of one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Problem {
    /// The object with the problem.
    pub object: ObjectRef,
    /// `metadata.uid` of the object, if an API server assigned one. It distinguishes an object from
    /// its successor with the same name.
    pub uid: Option<Uid>,
    /// Path of the field: `spec.rules[1].http.paths[1].path`, `metadata.annotations[...]`,
    /// `data[keep-alive]`.
    pub field: String,
    /// Severity.
    pub severity: Severity,
    /// Problem code, which determines the class.
    pub code: Code,
    /// What is wrong, with the value in question.
    pub message: String,
    /// How to fix it.
    pub remedy: String,
}

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// A part of the object is not served as requested.
    Error,
    /// The object is served as requested, but needs attention.
    Warning,
}

impl Severity {
    /// All severities, the worst first.
    pub const ALL: [Self; 2] = [Self::Error, Self::Warning];

    /// Returns the printed form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: ", self.severity, self.object)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}; {} [{}]", self.message, self.remedy, self.code)
    }
}
