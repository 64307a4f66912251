//! The `method` label.

use http::Method;

/// The methods with a label value of their own (RFC 9110 §9, RFC 5789, RFC 4918 for nginx's LOCK).
/// All others share the last value, because clients can invent any number of methods.
const METHODS: [&str; 17] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "COPY",
    "LOCK",
    "MKCOL",
    "MOVE",
    "PROPFIND",
    "PROPPATCH",
    "UNLOCK",
    "OTHER",
];

/// A value of the label in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MethodLabel(u8);

impl MethodLabel {
    /// Returns the label value of a request's method.
    pub(super) fn of(method: &Method) -> Self {
        let known = METHODS.iter().position(|known| *known == method.as_str());
        Self(known.unwrap_or(METHODS.len() - 1) as u8)
    }

    /// Returns the text of the label value.
    pub(super) fn text(self) -> &'static str {
        METHODS[usize::from(self.0)]
    }
}
