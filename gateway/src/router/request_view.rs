//! The parts of a request that select a rule.

use http::HeaderMap;

/// The parts of a request that select a rule.
#[derive(Debug)]
pub struct RequestView<'a, F = HeaderMap> {
    /// Normalised path ([`normalise`](super::normalise)).
    pub path: &'a str,
    /// Method as received; methods are case-sensitive (RFC 9110 section 9.1).
    pub method: &'a str,
    /// All header fields.
    pub headers: &'a F,
    /// The query as sent, without the question mark.
    pub query: Option<&'a str>,
}
