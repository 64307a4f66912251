//! Messages in the form of FastCGI 1.0: requests to endpoints, and their responses.
//!
//! | file | content |
//! |---|---|
//! | `record` | records: the framing of a connection |
//! | `params` | the parameters of a request, among them its fields |
//! | `response` | the head of a response (RFC 3875 §6) |
//!
//! A connection carries one request at a time, with id 1, as nginx uses it. Endpoints that serve
//! several requests of a connection at once are rare, and php-fpm is not one of them.

mod params;
mod record;
mod response;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod trial;

pub(crate) use params::Params;
pub(crate) use record::{RecordDecoder, begin, end_stdin, stdin};
pub(crate) use response::read as read_response;
