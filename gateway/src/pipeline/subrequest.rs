//! Calls of the gateway's own: requests to authorisation services and error backends, and copies
//! for mirrors.
//!
//! A stage of the pipeline describes the request ([`Subrequest`]); the engine sends it as an
//! [`OwnCall`]. Endpoints, retries and the health of endpoints follow the same rules as for
//! clients' requests. The response goes to no client: the stage gets the head and the start of the
//! body. A call owns all that it needs, so it can outlive its exchange.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use sluice_config::{GlobalSettings, Timeout, UpstreamProtocol};

use super::call::{Call, Rules, pick};
use super::originator::Originator;
use super::outcome::Next;
use crate::io::failure::{Failure, FailureKind};
use crate::message::edit::{RequestMut, RequestTarget, ResponseMut};
use crate::message::fields::Fields;
use crate::policy::call_destination::CallTarget;
use crate::policy::timeouts::resolve;
use crate::route::Route;
use crate::state::snapshot::SnapshotPart;
use crate::upstream::attempt::{KeepAlive, Upstream};

/// A request of the gateway's own.
#[derive(Debug)]
pub struct Subrequest {
    /// Where it goes.
    pub to: CallTarget,
    /// The method.
    pub method: Method,
    /// Path and query.
    pub target: RequestTarget,
    /// All fields except those of framing and connection; `Host` is included. Taken when the call
    /// begins.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// The server name sent in TLS; `None` sends none.
    pub server_name: Option<Arc<str>>,
    /// Limits of connections; `None` uses those of clients' requests.
    pub keep_alive: Option<KeepAlive>,
    /// Bytes of the response body to read. A longer body ends the call.
    pub most_body: usize,
    /// Whether the body is returned too.
    pub needs_body: bool,
    /// The request is a copy: its response is dropped, it never waits for capacity or memory, and
    /// it is not sent again once an endpoint may have seen it.
    pub is_copy: bool,
    /// A client waits for the response: once an endpoint has accepted the connection, no further
    /// attempt is made, because it would double the time of a slow endpoint.
    pub is_single: bool,
    /// The rule whose timeouts and retries apply; `None` uses the global ones.
    pub route: Option<SnapshotPart<Route>>,
    /// Global settings.
    pub settings: Arc<GlobalSettings>,
}

/// The response to a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubrequestResponse {
    /// The status.
    pub status: StatusCode,
    /// All fields, as they were sent.
    pub fields: HeaderMap,
    /// The body without transfer coding.
    pub body: Bytes,
    /// Whether `body` is the whole body.
    pub whole: bool,
}

/// Why a call has no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// The pool has no endpoint, or the host has no address.
    NoEndpoint,
    /// How the last attempt failed.
    Attempt(FailureKind),
}

impl CallFailure {
    /// The status that a client would get for it.
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::NoEndpoint => StatusCode::SERVICE_UNAVAILABLE,
            Self::Attempt(FailureKind::Memory | FailureKind::Shortage) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Attempt(kind) if kind.is_timeout() => StatusCode::GATEWAY_TIMEOUT,
            Self::Attempt(_) => StatusCode::BAD_GATEWAY,
        }
    }
}

impl Subrequest {
    /// Whether a client's request fails without the response, whose head decides about it: a
    /// missing copy is harmless, and an answer without its page is sent plain.
    pub(crate) fn is_needed(&self) -> bool {
        !self.is_copy && !self.needs_body
    }

    /// The time limit for a connection; `None` is no limit.
    pub(crate) fn connect_timeout(&self) -> Option<Duration> {
        let own = self.route.as_deref().map_or(Timeout::Inherit, |route| route.policies.timeouts.connect);
        resolve(own, self.settings.proxy_connect_timeout)
    }
}

/// A call of the gateway's own, in progress.
#[derive(Debug)]
pub struct OwnCall {
    /// The request.
    pub subrequest: Subrequest,
    pub(super) call: Call,
}

impl OwnCall {
    /// A call of which nothing is sent yet.
    pub fn new(subrequest: Subrequest) -> Self {
        Self { subrequest, call: Call::default() }
    }
}

impl Originator for OwnCall {
    type Answer = CallFailure;

    fn call(&mut self) -> &mut Call {
        &mut self.call
    }

    fn settings(&self) -> &GlobalSettings {
        &self.subrequest.settings
    }

    fn protocol(&self) -> Option<UpstreamProtocol> {
        Some(self.subrequest.to.pool()?.protocol())
    }

    fn speaks_http_1_0(&self) -> bool {
        false
    }

    /// Waiting is reserved for what clients need.
    fn may_wait(&self) -> bool {
        !self.subrequest.is_copy
    }

    /// The body of a copy arrives as the client sends it, and the client's own limits apply.
    fn body_timeout(&self) -> Option<Duration> {
        None
    }

    fn pick(&mut self) -> Result<Upstream, CallFailure> {
        let Subrequest { to, method, route, settings, keep_alive, server_name, .. } = &self.subrequest;
        let pool = to.pool().ok_or(CallFailure::NoEndpoint)?;
        let now = Instant::now();
        let same = self.call.take_same_endpoint();
        let again = same.is_some();
        let endpoint = match same {
            Some(endpoint) => endpoint,
            None => pick(pool, None, &self.call.failed, now).map_err(|_| CallFailure::NoEndpoint)?,
        };
        let usual = Rules::of(now, route.as_deref(), settings, method, pool.protocol());
        let rules = Rules {
            server_name: server_name.as_ref(),
            keep_alive: keep_alive.unwrap_or(usual.keep_alive),
            ..usual
        };
        Ok(self.call.begin(&endpoint, again, &rules))
    }

    /// Does nothing: the head is complete.
    fn upstream_request(&self, _: &mut impl RequestMut) {}

    fn failed(&mut self, failure: Failure) -> Next<CallFailure> {
        let over = Next::Answer(CallFailure::Attempt(failure.kind));
        // The rest of the request body never arrives, or the call has received enough.
        let has_decision = failure.response_started && self.subrequest.is_needed();
        if has_decision || failure.kind == FailureKind::Client || failure.kind.is_of_the_request() {
            return over;
        }
        let Subrequest { to, is_copy, is_single, .. } = &self.subrequest;
        let was_connected = self.call.is_connected();
        // The part of a response that has arrived is dropped.
        let failure = Failure { response_started: false, ..failure };
        let again = self.call.failed(to.pool().map(|pool| &**pool), &failure, StatusCode::BAD_GATEWAY);
        // A stale connection was no attempt.
        let is_over = !failure.stale && (*is_copy && failure.sent || *is_single && was_connected);
        if again && !is_over { Next::Retry } else { over }
    }

    fn upstream_response(
        &mut self,
        status: StatusCode,
        _: &impl Fields,
        replayable: bool,
    ) -> Option<Next<CallFailure>> {
        let Subrequest { to, is_copy, is_single, .. } = &self.subrequest;
        let may_repeat = replayable && !is_copy && !is_single;
        self.call.responded(to.pool().map(|pool| &**pool), status, may_repeat).then_some(Next::Retry)
    }

    /// Does nothing: the stage that asked gets the head as received.
    fn response(&mut self, _: &mut impl ResponseMut) {}
}
