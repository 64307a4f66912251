//! HTTP messages: heads, fields and framing. Converts bytes to validated values and back.
//!
//! A leaf module: it does not depend on sockets, routes or engines. All code that reads messages
//! from outside uses it, so no two readers interpret the same bytes differently (RFC 9112, RFC
//! 9113).

pub(crate) mod accel;
pub mod answer;
pub(crate) mod authority;
pub(crate) mod digits;
pub mod edit;
pub(crate) mod fastcgi;
pub(crate) mod field_list;
pub(crate) mod field_names;
pub mod fields;
pub(crate) mod framing;
pub(crate) mod grpc;
pub(crate) mod head;
pub(crate) mod hex;
pub mod hop_by_hop;
pub(crate) mod http2;
mod page;
pub(crate) mod parts;
pub(crate) mod request;
pub mod request_head;
pub(crate) mod response;
pub(crate) mod target;
pub(crate) mod trailers;
#[cfg(any(test, feature = "fuzzing"))]
pub use fastcgi::trial::fastcgi as try_fastcgi;
#[cfg(any(test, feature = "fuzzing"))]
pub mod trial;
