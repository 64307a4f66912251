//! Requests in early data of TLS 1.3, which an attacker can replay (RFC 8470).
//!
//! Only requests with a safe method are served before the handshake has ended; others get 425, and
//! the client repeats them. An endpoint learns of the risk by `Early-Data: 1` and may respond 425
//! itself, which is passed on.

use http::header::{HeaderName, HeaderValue};

use crate::connection::info::ConnectionInfo;
use crate::message::fields::FieldsMut;
use crate::message::hop_by_hop::asks_for_upgrade;
use crate::message::request_head::RequestHead;

static EARLY_DATA: HeaderName = HeaderName::from_static("early-data");

/// Returns whether a request must wait for the end of the handshake: its method is not safe, or it
/// asks for a tunnel, whose content may do anything.
pub fn is_too_early(head: &RequestHead<'_>, connection: &ConnectionInfo) -> bool {
    connection.may_be_replayed() && (!head.method.is_safe() || asks_for_upgrade(head.headers))
}

/// Adds `Early-Data: 1` to a request that is sent before the handshake has ended (RFC 8470 §5.2).
/// The same field of a client stays.
pub fn apply(fields: &mut impl FieldsMut, connection: &ConnectionInfo) {
    if connection.may_be_replayed() {
        fields.set(&EARLY_DATA, &HeaderValue::from_static("1"));
    }
}
