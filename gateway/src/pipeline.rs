//! The life of a request, independent of who moves the bytes.
//!
//! A driver (`direct`, `proxy`) turns bytes into heads and calls, in this order:
//!
//! 1. [`Exchange::begin`] with the request head: route, then the stages of the rule, in the order of the list in
//!    `stages`. Gives an answer, "forward", or a question that somebody must carry out; then [`Exchange::resume`].
//! 2. [`Exchange::pick`]: the endpoint for this attempt.
//! 3. [`Exchange::upstream_request`]: what the head becomes on its way to the endpoint.
//! 4. [`Exchange::failed`] or [`Exchange::upstream_response`]: whether another endpoint is tried (back to 2),
//!    what the client is told, or that the response is relayed.
//! 5. [`Exchange::response`]: what the response head becomes on its way to the client.
//! 6. [`Exchange::end`], exactly once whatever happened: log line, metrics, passive health.
//!
//! Nothing here sees a socket, a body or a Pingora type, which is what makes two drivers possible and the
//! order of checks testable.

mod admission;
mod ask;
mod attempts;
mod authorise;
mod bodies;
pub mod call;
mod checks;
mod end;
mod error_page;
pub mod exchange;
mod header_sets;
mod mirror;
pub mod outcome;
pub mod question;
mod request;
mod response;
mod session;
mod stages;
#[cfg(test)]
pub(crate) mod tests;
mod upstream;

pub(crate) use admission::is_exempt;
pub(crate) use authorise::{Service, service};
pub(crate) use bodies::RequestBody;
pub use call::{Call, CallFailure, Subrequest};
pub use exchange::{Exchange, Verdict};
pub use mirror::MirroredRequest;
pub use outcome::{MOST_INTERIM, Next, Outcome};
pub use question::{Job, Question, Reply};
pub(crate) use stages::{ORDER, PipelineStage};

pub use crate::failure::{Failure, FailureKind};
pub use crate::message::answer::Answer;
pub use crate::upstream::attempt::{KeepAlive, Upstream};
