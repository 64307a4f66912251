//! A request head as the pipeline sees it.

use http::{HeaderMap, Method, Version};

/// Borrowed view of a request head. The driver has already checked its framing (RFC 9112) and resolved the
/// authority.
#[derive(Debug)]
pub struct RequestHead<'a, F = HeaderMap> {
    /// The method.
    pub method: &'a Method,
    /// Path and query as the client sent them; of an absolute-form target only that part (RFC 9112 §3.2.2);
    /// `*` for `OPTIONS *`.
    pub target: &'a str,
    /// Host and port the request is for: the authority of an absolute-form target or `:authority`, else the
    /// Host field; empty for HTTP/1.0 without one.
    pub authority: &'a str,
    /// Protocol version.
    pub version: Version,
    /// All fields, `Host` included.
    pub headers: &'a F,
    /// Bytes of the head on the wire (HTTP/2: the sum of names and values), for `$request_length`.
    pub length: usize,
}
