//! Responses of the gateway itself.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};

use super::page::{page, page_of, page_of_large_head};

/// A complete response. The client side adds `Date`, `Content-Length` and the connection fields of
/// its protocol, and omits the body for HEAD.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The fields, including `Content-Type`.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// The content.
    pub body: Bytes,
    /// Closes a connection of HTTP/1 after the response, such as one to a malformed request.
    pub close: bool,
    /// Nothing is sent: the connection closes, or the stream is reset (nginx's 444).
    pub silent: bool,
    /// The content was left out, because the request was HEAD. `fields` have its length, if that is
    /// known.
    pub omits_body: bool,
    /// No error page replaces it. In nginx, this is a `return` with a text.
    pub is_final: bool,
}

impl Answer {
    /// Returns whether the response has the `Content-Length` of its body: not if none is allowed
    /// (RFC 9110 §8.6), or if it would describe another representation.
    pub(crate) fn has_length(&self) -> bool {
        !self.omits_body && !matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
    }

    /// Returns the standard page for a status.
    pub(crate) fn page(status: StatusCode) -> Self {
        Self::with_body(status, page(status))
    }

    /// Returns the answer to a head, or a line of it, that exceeds its limit.
    pub(crate) fn head_too_large() -> Self {
        Self::with_body(StatusCode::BAD_REQUEST, page_of_large_head())
    }

    /// Returns the answer to a request without TLS on a port for TLS (nginx's 497).
    pub(crate) fn plain_http() -> Self {
        Self::with_body(StatusCode::BAD_REQUEST, page_of("The plain HTTP request was sent to HTTPS port"))
    }

    /// Returns the answer to a client without the required certificate (nginx's 496).
    pub(crate) fn certificate_missing() -> Self {
        Self::with_body(StatusCode::BAD_REQUEST, page_of("No required SSL certificate was sent"))
    }

    /// Returns the answer to a client whose certificate is not acceptable (nginx's 495).
    pub(crate) fn certificate_invalid() -> Self {
        Self::with_body(StatusCode::BAD_REQUEST, page_of("The SSL certificate error"))
    }

    /// Returns a status without a body.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self::with_body(status, Bytes::new())
    }

    /// Returns a status with this text and type; without a type, `text/html`. No error page
    /// replaces it.
    pub(crate) fn text(status: StatusCode, content_type: Option<HeaderValue>, body: Bytes) -> Self {
        let mut answer = Self { is_final: true, ..Self::with_body(status, Bytes::new()) };
        if answer.has_length() {
            let content_type = content_type.unwrap_or(HeaderValue::from_static("text/html"));
            answer.fields.push((CONTENT_TYPE, content_type));
            answer.body = body;
        }
        answer
    }

    /// Returns a redirect, with a page for clients that do not follow it.
    pub(crate) fn redirect(status: StatusCode, location: HeaderValue) -> Self {
        let mut answer = Self::page(status);
        answer.fields.push((LOCATION, location));
        answer
    }

    /// No response at all (nginx's 444). The status is that of the log line.
    pub(crate) fn silent(status: StatusCode) -> Self {
        Self { close: true, silent: true, ..Self::with_body(status, Bytes::new()) }
    }

    fn with_body(status: StatusCode, body: Bytes) -> Self {
        let mut fields = Vec::with_capacity(4);
        if !body.is_empty() {
            fields.push((CONTENT_TYPE, HeaderValue::from_static("text/html")));
        }
        Self { status, fields, body, close: false, silent: false, omits_body: false, is_final: false }
    }
}
