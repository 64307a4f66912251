//! Converts heads and bodies between the gateway's types and Pingora's.

use std::io::Write;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode};
use pingora_http::{RequestHeader, ResponseHeader};

use crate::message::field_list::line;
use crate::message::field_names::FieldNames;
use crate::message::framing::Framing;
use crate::message::head::{Head, content_length};
use crate::message::http2::path_and_query;
use crate::message::response::Response;
use crate::message::trailers;

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
    of(head, Framing::NONE)
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
    let mut response = of(head, framing);
    if framing == Framing::CHUNKED {
        response.fields.push_line(b"Transfer-Encoding", b"chunked");
    }
    response
}

fn of(head: &ResponseHeader, framing: Framing) -> Response {
    let reason = head.get_reason_phrase().unwrap_or_default();
    let mut response = Response::of(head.status, reason, framing);
    let fields = &mut response.fields;
    match head.has_case() {
        true => {
            for (name, value) in head.case_header_iter() {
                add(fields, name.as_slice(), value);
            }
        }
        false => {
            for (name, value) in &head.headers {
                add(fields, name.as_str().as_bytes(), value);
            }
        }
    }
    response
}

fn add(fields: &mut crate::message::field_list::FieldList, name: &[u8], value: &HeaderValue) {
    if !name.eq_ignore_ascii_case(TRANSFER_ENCODING.as_str().as_bytes()) {
        fields.push_line(name, value.as_bytes());
    }
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
