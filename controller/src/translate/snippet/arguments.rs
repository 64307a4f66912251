//! Values of directives that take one argument.

use super::fault::Fault;
use crate::translate::value::{Author, Type, Wrong};

/// Sets a value. Returns whether there was none.
pub(super) fn put<T>(place: &mut Option<T>, value: T) -> bool {
    place.replace(value).is_none()
}

/// Reads the only argument as a value of this type.
pub(super) fn parsed<T: 'static>(kind: &Type<T>, arguments: &[String]) -> Result<T, Fault> {
    let [text] = arguments else { return Err("takes one value".into()) };
    parse(kind, text)
}

/// Reads a value of this type.
pub(super) fn parse<T: 'static>(kind: &Type<T>, text: &str) -> Result<T, Fault> {
    kind.parse(text, &Author::OPERATOR).map_err(|wrong| match wrong {
        Wrong::Invalid(reason) => format!("the value {text:?} {reason}").into(),
        _ => format!("the value {text:?} must be {}", kind.words()).into(),
    })
}

/// Reads the only argument, which is one of these words.
pub(super) fn word<T: Copy>(arguments: &[String], words: &[(&str, T)]) -> Result<T, Fault> {
    let found = match arguments {
        [text] => words.iter().find(|(word, _)| word == text).map(|(_, value)| *value),
        _ => None,
    };
    let all: Vec<_> = words.iter().map(|(word, _)| *word).collect();
    found.ok_or_else(|| format!("takes one of: {}", all.join(", ")).into())
}
