//! The life of a request, independent of who moves the bytes.
//!
//! A driver (`direct`, `proxy`) turns bytes into heads and calls, in this order:
//!
//! 1. [`Exchange::begin`] with the request head: route, checks, redirects. Gives an answer or "forward".
//! 2. [`Exchange::pick`]: the endpoint for this try.
//! 3. [`Exchange::upstream_request`]: what the head becomes on its way to the endpoint.
//! 4. [`Exchange::failed`] or [`Exchange::upstream_response`]: whether another endpoint is tried (back to 2),
//!    what the client is told, or that the response is relayed.
//! 5. [`Exchange::response`]: what the response head becomes on its way to the client.
//! 6. [`Exchange::end`], exactly once whatever happened: log line, metrics, passive health.
//!
//! Nothing here sees a socket, a body or a Pingora type, which is what makes two drivers possible and the
//! order of checks testable.
//!
//! # The order of checks
//!
//! 1. **The path is normalised** for matching, before anything looks at it: a rule must not be passed by
//!    writing its path in another way. One that cannot be normalised is answered with 400.
//! 2. **Host, then rule.** The host decides which rules there are; the rules of the most specific host are
//!    tried in their total order. A known host without a fitting rule gets the program's default backend. For
//!    a host that nobody named, `/healthz` is answered with 200, because load balancers in front of a gateway
//!    ask for it, and everything else goes to the default backend; without one the answer is 404.
//! 3. **A denied rule** answers with its status (503) before anything else, redirects included: it is closed
//!    because a policy that protects it could not be built, and nothing about it may be learned.
//! 4. **Redirects that the rule asks for**, among them the slash that nginx appends. They come before the
//!    redirect to https, as in nginx: the second request then gets that one.
//! 5. **The redirect to https**, before everything that a client could learn over http.
//! 6. **Fixed answers**, then the draw of a backend by weight. A backend that is not valid keeps its share and
//!    answers with its status; no weight at all is 500.
//! 7. **Forward**, unless the request has come through so many gateways that it must be going round: 508. Each try
//!    picks an endpoint; no endpoint is 503. What goes out loses the fields of the
//!    client's connection first, then gets ours, so that no client can remove one of ours by naming it in
//!    `Connection`; changes that a rule asks for come last and win.
//!
//! Later checks have their places in this order: block lists before 3, CORS preflights after 3, limits,
//! allow lists and authentication between 6 and 7.

pub mod answer;
mod end;
pub mod exchange;
pub mod outcome;
mod page;
mod request;
mod response;
mod session;
#[cfg(test)]
pub(crate) mod tests;
mod upstream;

pub use answer::Answer;
pub use exchange::{Exchange, Verdict};
pub use outcome::{Failure, FailureKind, KeepAlive, MOST_INTERIM, Next, Outcome, Upstream};
