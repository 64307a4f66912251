//! Heads of Pingora as those of responses to clients.

use http::header::{HeaderValue, TRANSFER_ENCODING};
use pingora_http::ResponseHeader;

use crate::message::field_list::FieldList;
use crate::message::framing::Framing;
use crate::message::response::Response;

/// Converts a head. Preserves the case of names, and drops the transfer coding: `framing` states
/// how the body is passed on.
pub(crate) fn client_head(head: &ResponseHeader, framing: Framing) -> Response {
    let reason = head.get_reason_phrase().unwrap_or_default();
    let mut response = Response::of(head.status, reason, framing);
    let fields = &mut response.fields;
    match head.has_case() {
        true => head.case_header_iter().for_each(|(name, value)| add(fields, name.as_slice(), value)),
        false => {
            head.headers.iter().for_each(|(name, value)| add(fields, name.as_str().as_bytes(), value));
        }
    }
    response
}

fn add(fields: &mut FieldList, name: &[u8], value: &HeaderValue) {
    if !name.eq_ignore_ascii_case(TRANSFER_ENCODING.as_str().as_bytes()) {
        fields.push_line(name, value.as_bytes());
    }
}
