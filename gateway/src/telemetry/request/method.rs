//! The `method` label.

use http::Method;

/// The methods that have a label value of their own (RFC 9110 §9, RFC 5789, RFC 4918 for nginx's LOCK); all
/// others share the last, because a client can make up as many as it likes.
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

/// A value of the label, in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MethodLabel(u8);

impl MethodLabel {
    /// The one of a request's method.
    pub(super) fn of(method: &Method) -> Self {
        let known = METHODS.iter().position(|known| *known == method.as_str());
        Self(known.unwrap_or(METHODS.len() - 1) as u8)
    }

    /// The label's text.
    pub(super) fn text(self) -> &'static str {
        METHODS[usize::from(self.0)]
    }
}
