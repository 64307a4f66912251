//! The life cycle of a request, without sockets.
//!
//! An engine (`direct`, `proxy`) reads heads and calls, in this order:
//!
//! 1. [`Exchange::begin`] with the request head: finds the route and runs the stages of the rule in
//!    the order of the list in `stages`. The verdict is an answer, "forward", or a question, whose
//!    reply goes to [`Exchange::resume`]. An error page may replace the refusal of the client's
//!    certificate: `Exchange::take_certificate_page`.
//! 2. `Originator::pick`: the endpoint for an attempt.
//! 3. `Originator::upstream_request`: changes the head for the endpoint.
//! 4. `Originator::failed` or `Originator::upstream_response`: decides between another attempt
//!    (back to 2), an answer, and relaying the response.
//! 5. `Originator::response`: changes the response head for the client.
//! 6. [`Exchange::end`], exactly once: log line, metrics, passive health.
//!
//! Steps 2 to 5 are the same for the gateway's own calls ([`OwnCall`]). The pipeline uses no
//! socket, no body and no type of Pingora, so two engines can share it, and the order of checks is
//! tested without either.

mod admission;
mod ask;
mod auth_service;
mod authorise;
mod bodies;
mod cache;
pub(crate) mod call;
mod checks;
mod client_certificate;
mod directive_state;
mod directives;
mod end;
mod error_page;
pub mod exchange;
mod fastcgi;
mod filled_sets;
mod firewall;
mod header_sets;
mod limits;
mod mirror;
mod observed;
mod observed_request;
pub mod originator;
pub mod outcome;
mod own_path;
mod preview;
pub mod question;
mod request;
mod response;
mod satisfy_any;
mod session;
mod stages;
pub mod subrequest;
#[cfg(test)]
pub(crate) mod tests;
mod trace;
mod trace_state;
mod upstream;

pub use crate::policy::call_destination::CallTarget;
pub(crate) use admission::global_sources;
pub(crate) use auth_service::{AuthService, is_exempt, service};
pub(crate) use bodies::{RequestBody, body_limit};
pub(crate) use cache::{CachedRequest, RequestShape, sets_credentials};
pub use call::Call;
pub use exchange::{Exchange, Verdict};
pub use mirror::MirroredRequest;
pub(crate) use originator::Originator;
pub use outcome::{ExchangeOutcome, MOST_INTERIM, Next};
pub(crate) use preview::RequestPreview;
pub use question::{Job, Question, Reply};
pub(crate) use stages::{ORDER, PipelineStage};
pub use subrequest::{CallFailure, OwnCall, Subrequest, SubrequestResponse};

pub use crate::io::failure::{Failure, FailureKind};
pub use crate::message::answer::Answer;
pub use crate::upstream::attempt::{KeepAlive, Upstream};
