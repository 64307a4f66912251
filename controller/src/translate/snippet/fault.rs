//! Why directives are not translated, and which setting replaces them.

use super::grammar::{Directive, SyntaxError};

/// Why a snippet is not translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Untranslated {
    /// The line and the directive, with what is wrong: completes "the snippet is not translated:
    /// ...".
    pub(super) reason: String,
    /// How to fix it.
    pub(super) remedy: String,
}

impl From<SyntaxError> for Untranslated {
    fn from(error: SyntaxError) -> Self {
        Self { reason: error.to_string(), remedy: "correct the text; nginx refuses it too".to_owned() }
    }
}

/// A fault of one directive: the reason, and the setting that replaces the directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) reason: String,
    pub(super) replacement: Option<&'static str>,
}

impl Fault {
    /// The fault of the directive `name`, with its replacement among `replacements`.
    pub(super) fn replaced(reason: &str, name: &str, replacements: &[(&str, &'static str)]) -> Self {
        let replacement = replacements.iter().find(|(known, _)| *known == name);
        Self { reason: reason.to_owned(), replacement: replacement.map(|(_, instead)| *instead) }
    }

    /// A fault with the setting to use in place of the directive.
    pub(super) fn with(reason: impl Into<String>, replacement: &'static str) -> Self {
        Self { reason: reason.into(), replacement: Some(replacement) }
    }
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self { reason, replacement: None }
    }
}

impl From<&str> for Fault {
    fn from(reason: &str) -> Self {
        Self::from(reason.to_owned())
    }
}

impl Directive {
    /// The fault with the line and the name of this directive.
    pub(super) fn fault(&self, fault: Fault) -> Untranslated {
        Untranslated {
            reason: format!("line {}: {}: {}", self.line, self.name, fault.reason),
            remedy: match fault.replacement {
                Some(replacement) => format!("use {replacement} in place of the directive"),
                None => {
                    "correct or remove the directive; docs/snippets.md lists what is translated".to_owned()
                }
            },
        }
    }
}
