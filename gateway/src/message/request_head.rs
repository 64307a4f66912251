//! A request head as the pipeline reads it.

use http::{Method, Version};

use crate::message::field_list::FieldList;
use crate::message::target;

/// Borrowed view of a request head whose framing (RFC 9112) is checked and whose authority is
/// resolved.
#[derive(Debug)]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a Method,
    /// Path and query as the client sent them; of an absolute-form target only that part (RFC 9112
    /// §3.2.2); `*` for `OPTIONS *`.
    pub target: &'a str,
    /// The client's request line, if an error page has replaced method and target.
    pub received: Option<ReceivedLine<'a>>,
    /// Host and port of the request: the authority of an absolute-form target or `:authority`, else
    /// the Host field; empty for HTTP/1.0 without one.
    pub authority: &'a str,
    /// Protocol version.
    pub version: Version,
    /// All fields, `Host` included.
    pub headers: &'a FieldList,
    /// Bytes of the head on the wire (HTTP/2: the sum of names and values), for `$request_length`.
    pub length: usize,
}

/// Method and target as the client sent them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedLine<'a> {
    /// The method.
    pub method: &'a Method,
    /// Path and query.
    pub target: &'a str,
}

impl RequestHead<'_> {
    /// Path and query as the client sent them, also if an error page has replaced them.
    pub fn received_target(&self) -> &str {
        self.received.map_or(self.target, |received| received.target)
    }

    /// The target without its query.
    pub fn path(&self) -> &str {
        target::split(self.target).0
    }

    /// The query of the target.
    pub fn query(&self) -> Option<&str> {
        target::split(self.target).1
    }
}
