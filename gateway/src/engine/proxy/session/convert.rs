//! Converts heads and bodies between the gateway's types and Pingora's.

use std::io::Write;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use pingora_http::{RequestHeader, ResponseHeader};

use crate::cache::client_head;
use crate::engine::proxy::fields::Unbuffered;
use crate::message::field_list::line;
use crate::message::field_names::FieldNames;
use crate::message::fields::{Fields, FieldsMut};
use crate::message::framing::Framing;
use crate::message::head::{Head, content_length};
use crate::message::http2::path_and_query;
use crate::message::response::Response;
use crate::message::trailers::{self, HiddenTrailers};

/// Converts the head of a request to HTTP/1.1. Preserves the case of names.
pub(super) fn request(head: &Head) -> RequestHeader {
    let fields = head.fields.iter();
    let target = path_and_query(head.target());
    let built =
        RequestHeader::build(head.method.clone(), target.as_str().as_bytes(), Some(fields.size_hint().0));
    let Ok(mut request) = built else { unreachable!("a path and a query are a target") };
    for (name, value) in fields {
        if let (Ok(name), Ok(value)) = (str::from_utf8(name), HeaderValue::from_bytes(value)) {
            let _ = request.append_header(name.to_owned(), value);
        }
    }
    request
}

/// Converts an interim response.
pub(super) fn interim(head: &ResponseHeader) -> Response {
    client_head(head, Framing::NONE)
}

/// Converts a final response. `ends`: nothing follows the head.
pub(super) fn response(head: &ResponseHeader, method: &Method, http2: bool, ends: bool) -> Response {
    let status = head.status;
    let length = || content_length(head.headers.get(CONTENT_LENGTH)?.as_bytes());
    let framing = match status {
        StatusCode::SWITCHING_PROTOCOLS => Framing::Opaque,
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => Framing::NONE,
        _ if *method == Method::HEAD => Framing::NONE,
        // HTTP/2 marks the end itself, and trailers may follow a body of known length.
        _ if http2 && ends => Framing::NONE,
        _ if http2 => Framing::Opaque,
        _ => length().map_or(Framing::CHUNKED, Framing::Length),
    };
    let mut response = client_head(head, framing);
    response.is_unbuffered = head.extensions.get::<Unbuffered>().is_some();
    response.hidden_trailers = head.extensions.get::<HiddenTrailers>().cloned().unwrap_or_default();
    match framing {
        Framing::CHUNKED => {
            // Pingora accepts a list of equal lengths, which is none here (RFC 9112 §6.2 and §6.3).
            response.fields.remove(&CONTENT_LENGTH);
            response.fields.push_line(b"Transfer-Encoding", b"chunked");
        }
        Framing::Length(length) if response.fields.lines(&CONTENT_LENGTH).count() > 1 => {
            response.fields.set(&CONTENT_LENGTH, &HeaderValue::from(length));
        }
        _ => {}
    }
    response
}

/// Encodes content as chunks; at the end followed by the last chunk and the trailers.
pub(super) fn chunks(pieces: &[Bytes], end: Option<Option<&HeaderMap>>) -> Bytes {
    let data: usize = pieces.iter().map(|piece| piece.len() + 16).sum();
    let mut out = Vec::with_capacity(data + 16);
    for piece in pieces {
        // Writing to a vector does not fail.
        let _ = write!(out, "{:x}\r\n", piece.len());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }
    if let Some(section) = end {
        out.extend_from_slice(b"0\r\n");
        for (name, value) in section.into_iter().flatten() {
            if passes(name) {
                line(&mut out, name.as_str().as_bytes(), value.as_bytes());
            }
        }
        out.extend_from_slice(b"\r\n");
    }
    out.into()
}

fn passes(name: &HeaderName) -> bool {
    trailers::passes(name.as_str().as_bytes(), FieldNames::ANY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_equal_lengths_was_sent_beside_chunks() {
        let converted = |lengths: &[&'static str]| {
            let mut head = ResponseHeader::build(200, None).unwrap();
            for length in lengths {
                head.append_header(CONTENT_LENGTH, *length).unwrap();
            }
            response(&head, &Method::GET, false, false)
        };
        let list = converted(&["5, 5"]);
        assert_eq!((list.framing, list.fields.has(&CONTENT_LENGTH)), (Framing::CHUNKED, false));
        let lines = converted(&["5", "5"]);
        assert_eq!(lines.framing, Framing::Length(5));
        assert_eq!(lines.fields.lines(&CONTENT_LENGTH).collect::<Vec<_>>(), [b"5"]);
    }
}
