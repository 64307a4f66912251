//! The request head as the pipeline reads it and as an endpoint receives it.

use http::Version;
use http::header::{CONNECTION, HOST, HeaderName};

use crate::message::field_list::line;
use crate::message::fields::Fields;
use crate::message::head::Head;
use crate::message::hop_by_hop;
use crate::message::request_head::RequestHead;

static CLOSE: HeaderName = HeaderName::from_static("close");
static KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// Returns the view of the pipeline. Hosts are already checked to be ASCII.
pub(crate) fn view(head: &Head) -> RequestHead<'_> {
    RequestHead {
        method: &head.method,
        target: head.target(),
        received: head.received(),
        authority: head.fields.first(&HOST).and_then(|host| str::from_utf8(host).ok()).unwrap_or_default(),
        version: head.version,
        headers: &head.fields,
        length: head.length,
    }
}

/// Returns whether the client continues to use the connection (RFC 9112 §9.3).
pub(crate) fn keeps_alive(head: &Head) -> bool {
    let says = |option| hop_by_hop::names(&head.fields, option);
    !says(&CLOSE) && (head.version != Version::HTTP_10 || says(&KEEP_ALIVE))
}

/// Returns whether the client requests an upgrade, over HTTP/2 with an extended CONNECT.
pub(crate) fn asks_for_upgrade(head: &Head) -> bool {
    matches!(head.version, Version::HTTP_11 | Version::HTTP_2) && hop_by_hop::asks_for_upgrade(&head.fields)
}

/// Writes the head for an endpoint in HTTP/1.0 or 1.1. `last`: the connection is closed afterwards,
/// which a field `Connection` of its own (an upgrade, `connection-proxy-header`) leaves out, as in
/// nginx.
pub(crate) fn write(head: &Head, version: Version, out: &mut Vec<u8>, last: bool) {
    out.extend_from_slice(head.outgoing_method().as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(head.outgoing_target().as_bytes());
    out.extend_from_slice(match version {
        Version::HTTP_10 => b" HTTP/1.0\r\n",
        _ => b" HTTP/1.1\r\n",
    });
    head.fields.write(out);
    if last && !head.fields.has(&CONNECTION) {
        line(out, b"Connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
}
