//! A request head as the pipeline reads it.

use http::{HeaderMap, Method, Version};

/// Borrowed view of a request head. The engine has already checked its framing (RFC 9112) and
/// resolved the authority.
#[derive(Debug)]
pub struct RequestHead<'a, F = HeaderMap> {
    /// The method.
    pub method: &'a Method,
    /// Path and query as the client sent them, without the authority of an absolute-form target
    /// (RFC 9112 §3.2.2); `*` for `OPTIONS *`.
    pub target: &'a str,
    /// Host and optional port: the authority of an absolute-form target, `:authority`, or else the
    /// Host field. Empty for HTTP/1.0 requests without any.
    pub authority: &'a str,
    /// Protocol version.
    pub version: Version,
    /// All fields, including `Host`.
    pub headers: &'a F,
    /// Bytes of the head on the wire (HTTP/2: the sum of names and values), for `$request_length`.
    pub length: usize,
}
