//! The life of a request, independent of who moves the bytes.
//!
//! A driver (`proxy`, later a direct one) turns bytes into heads and calls, in this order:
//!
//! 1. [`Exchange::begin`] with the request head: route, checks, redirects. Gives an answer or "forward".
//! 2. [`Exchange::pick`]: the endpoint for this try.
//! 3. [`Exchange::upstream_request`]: what the head becomes on its way to the endpoint.
//! 4. [`Exchange::failed`] or [`Exchange::upstream_response`]: whether another endpoint is tried (back to 2),
//!    what the client is told, or that the response is relayed.
//! 5. [`Exchange::response`]: what the response head becomes on its way to the client.
//! 6. [`Exchange::end`], exactly once whatever happened: log line, metrics, passive health.
//!
//! Nothing here sees a socket, a body or a Pingora type, which is what makes a second driver possible and the
//! order of checks testable.

pub mod answer;
pub mod exchange;
pub mod fields;
pub mod head;
pub mod outcome;

pub use answer::Answer;
pub use exchange::{Exchange, Verdict};
pub use fields::Fields;
pub use head::RequestHead;
pub use outcome::{Failure, FailureKind, Next, Outcome, Upstream};
