//! HTTP messages: heads, fields, framing. Bytes become checked values here, and values bytes.
//!
//! A leaf: nothing in it knows a socket, a route or a driver. Whoever reads a message from outside reads it with
//! this, so that two readers never understand the same bytes differently (RFC 9112, RFC 9113).

pub mod answer;
pub(crate) mod authority;
pub mod edit;
pub(crate) mod field_list;
pub(crate) mod field_names;
pub mod fields;
pub(crate) mod framing;
pub(crate) mod head;
pub mod hop_by_hop;
pub(crate) mod http2;
mod page;
pub(crate) mod parts;
pub(crate) mod request;
pub mod request_head;
pub(crate) mod response;
pub(crate) mod trailers;
#[cfg(any(test, feature = "fuzzing"))]
pub mod trial;
