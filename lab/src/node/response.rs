//! Responses of a node.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// The body of a response.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Returns a response with a message.
pub fn text(status: StatusCode, message: String) -> Response<Body> {
    body(status, Bytes::from(message + "\n"))
}

/// Returns a response with a complete body.
pub fn body(status: StatusCode, content: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(content).boxed_unsync());
    *response.status_mut() = status;
    response
}
