//! Problems: what is wrong with the input, as one value that the log, `sluice check`, introspection and metrics all
//! print, and later status, Events and admission.

mod code;
mod view;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use code::{Class, Code, markdown_table};
pub use view::ProblemView;

use crate::name::ObjectRef;
use crate::uid::Uid;

/// One thing that is wrong with one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Problem {
    /// The object to look at.
    pub object: ObjectRef,
    /// `metadata.uid` of that object, where an API server has given it one: an object that is deleted and made anew
    /// under the same name is another one.
    pub uid: Option<Uid>,
    /// The field as a path: `spec.rules[1].http.paths[1].path`, `metadata.annotations[...]`, `data[keep-alive]`.
    pub field: String,
    /// How bad.
    pub severity: Severity,
    /// Which kind of problem it is, for programs. It says the class too.
    pub code: Code,
    /// What is wrong, with the value in question.
    pub message: String,
    /// How to fix it.
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

impl Severity {
    /// Both, the worse first.
    pub const ALL: [Self; 2] = [Self::Error, Self::Warning];

    /// As it is printed.
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
