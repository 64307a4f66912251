//! Generated responses in the form of HTTP/1.

use pingora_core::protocols::http::date::get_cached_date;

use crate::pipeline::Answer;

/// Writes the head of a generated response. `keep`: the connection stays open.
pub(crate) fn write_head(answer: &Answer, keep: bool, out: &mut Vec<u8>) {
    let reason = answer.status.canonical_reason().unwrap_or_default();
    for part in ["HTTP/1.1 ", answer.status.as_str(), " ", reason, "\r\nDate: "] {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(get_cached_date().as_bytes());
    if answer.has_length() {
        out.extend_from_slice(b"\r\nContent-Length: ");
        out.extend_from_slice(itoa::Buffer::new().format(answer.body.len()).as_bytes());
    }
    out.extend_from_slice(if keep {
        b"\r\nConnection: keep-alive\r\n"
    } else {
        b"\r\nConnection: close\r\n"
    });
    for (name, value) in &answer.fields {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}
