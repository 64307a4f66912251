//! Answers that Sluice gives itself.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, STRICT_TRANSPORT_SECURITY};

use super::page::{page, page_of_large_head};

/// A complete response. The driver adds `Date`, `Content-Length` and the connection fields of its protocol,
/// and leaves the body out for HEAD.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// Fields, `Content-Type` included.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// The page.
    pub body: Bytes,
    /// Whether the connection must not be used again (malformed requests).
    pub close: bool,
}

impl Answer {
    /// Whether it tells its length: not where none is allowed (RFC 9110 §8.6), or where it would speak of
    /// another representation.
    pub(crate) fn has_length(&self) -> bool {
        !matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
    }

    /// The standard page for a status. `hsts` is there on https.
    pub(crate) fn page(status: StatusCode, hsts: Option<&HeaderValue>) -> Self {
        Self::with_body(status, page(status), hsts)
    }

    /// The answer to a head, or a line of it, that is longer than it may be.
    pub(crate) fn head_too_large(hsts: Option<&HeaderValue>) -> Self {
        Self::with_body(StatusCode::BAD_REQUEST, page_of_large_head(), hsts)
    }

    /// A status and nothing to read.
    pub(crate) fn empty(status: StatusCode, hsts: Option<&HeaderValue>) -> Self {
        Self::with_body(status, Bytes::new(), hsts)
    }

    /// A redirect, with the page for those that do not follow it.
    pub(crate) fn redirect(status: StatusCode, location: HeaderValue, hsts: Option<&HeaderValue>) -> Self {
        let mut answer = Self::page(status, hsts);
        answer.fields.push((LOCATION, location));
        answer
    }

    fn with_body(status: StatusCode, body: Bytes, hsts: Option<&HeaderValue>) -> Self {
        let mut fields = Vec::with_capacity(4);
        if !body.is_empty() {
            fields.push((CONTENT_TYPE, HeaderValue::from_static("text/html")));
        }
        if let Some(hsts) = hsts {
            fields.push((STRICT_TRANSPORT_SECURITY, hsts.clone()));
        }
        Self { status, fields, body, close: false }
    }
}
