//! Answers that Sluice gives itself.

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use smallvec::SmallVec;

/// A complete response. The driver adds `Date`, `Content-Length` and the connection fields of its protocol,
/// and leaves the body out for HEAD.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// Fields, `Server` and `Content-Type` included.
    pub fields: SmallVec<[(HeaderName, HeaderValue); 6]>,
    /// The page.
    pub body: Bytes,
    /// Whether the connection must not be used again (malformed requests).
    pub close: bool,
}
