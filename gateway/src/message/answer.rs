//! Responses that Sluice generates.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, STRICT_TRANSPORT_SECURITY};

use super::page::{page, page_of_large_head};

/// A complete response. The engine adds `Date`, `Content-Length` and the connection fields of its
/// protocol, and omits the body for HEAD.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The fields, including `Content-Type`.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// The content.
    pub body: Bytes,
    /// Closes the connection after the response (malformed requests).
    pub close: bool,
}

impl Answer {
    /// Returns whether the response has a `Content-Length`. 204 must not have one (RFC 9110 §8.6),
    /// and that of a 304 would describe another representation.
    pub(crate) fn has_length(&self) -> bool {
        !matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
    }

    /// Returns the standard page for a status. `hsts` is set for https.
    pub(crate) fn page(status: StatusCode, hsts: Option<&HeaderValue>) -> Self {
        Self::with_body(status, page(status), hsts)
    }

    /// Returns the response to a head, or a line in it, that exceeds its limit.
    pub(crate) fn head_too_large(hsts: Option<&HeaderValue>) -> Self {
        Self::with_body(StatusCode::BAD_REQUEST, page_of_large_head(), hsts)
    }

    /// Returns a response without content.
    pub(crate) fn empty(status: StatusCode, hsts: Option<&HeaderValue>) -> Self {
        Self::with_body(status, Bytes::new(), hsts)
    }

    /// Returns a redirect, with a page for clients that do not follow it.
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
