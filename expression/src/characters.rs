//! Sets of characters.

use std::sync::Arc;

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

use crate::error::ExpressionError;

/// A set of characters: ascending ranges, both ends included. Clones share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CharacterSet(Arc<[(char, char)]>);

impl CharacterSet {
    /// Reads an expression for one character, such as `[a-z]` or `\d`.
    ///
    /// # Errors
    /// It is malformed, or no such expression.
    pub(crate) fn read(text: &str, any_case: bool) -> Result<Self, ExpressionError> {
        let mut parser = regex_syntax::ParserBuilder::new().case_insensitive(any_case).build();
        let malformed = || ExpressionError::Malformed(format!("the class {text} cannot be read"));
        let hir = parser.parse(text).map_err(|_| malformed())?;
        match hir.kind() {
            HirKind::Class(Class::Unicode(class)) => Ok(Self::of(class)),
            HirKind::Class(Class::Bytes(class)) => {
                class.to_unicode_class().map(|c| Self::of(&c)).ok_or_else(malformed)
            }
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).map_err(|_| malformed())?;
                let mut characters = text.chars();
                match (characters.next(), characters.next()) {
                    (Some(c), None) => Ok(Self::only(c)),
                    _ => Err(malformed()),
                }
            }
            _ => Err(malformed()),
        }
    }

    /// The set of one character.
    pub(crate) fn only(c: char) -> Self {
        Self([(c, c)].into())
    }

    /// The set of a character in both cases.
    pub(crate) fn any_case(c: char) -> Self {
        let mut class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
        class.case_fold_simple();
        Self::of(&class)
    }

    /// The line ends that `\R` matches, except the pair of carriage return and line feed.
    pub(crate) fn line_ends() -> Self {
        Self([('\n', '\r'), ('\u{85}', '\u{85}'), ('\u{2028}', '\u{2029}')].into())
    }

    fn of(class: &ClassUnicode) -> Self {
        Self(class.ranges().iter().map(|range| (range.start(), range.end())).collect())
    }

    /// The number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The only character, if there is one.
    pub(crate) fn single(&self) -> Option<char> {
        match *self.0 {
            [(first, last)] if first == last => Some(first),
            _ => None,
        }
    }

    pub(crate) fn contains(&self, c: char) -> bool {
        let after = self.0.partition_point(|range| range.0 <= c);
        after > 0 && c <= self.0[after - 1].1
    }
}

/// What a byte counts as that is not UTF-8. Without it, one such byte would keep `.` and `[^/]`
/// from matching a text, and a request from being refused.
const NOT_UTF_8: (char, usize) = (char::REPLACEMENT_CHARACTER, 1);

/// Decodes the character at the beginning of a text. `None` at the end.
pub(crate) fn first(text: &[u8]) -> Option<(char, usize)> {
    let byte = *text.first()?;
    if byte.is_ascii() {
        return Some((char::from(byte), 1));
    }
    let length = match byte {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Some(NOT_UTF_8),
    };
    let decoded = text.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok()?.chars().next());
    Some(decoded.map_or(NOT_UTF_8, |c| (c, length)))
}

/// Decodes the character at the end of a text, like [`first`].
pub(crate) fn last(text: &[u8]) -> Option<(char, usize)> {
    let end = text.len();
    let begins = (end.saturating_sub(4)..end).rev().find(|at| !matches!(text[*at], 0x80..=0xbf));
    let decoded = begins.and_then(|at| first(&text[at..]).filter(|(_, length)| at + length == end));
    decoded.or_else(|| text.last().map(|_| NOT_UTF_8))
}
