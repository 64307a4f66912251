//! A call of the gateway's own: one conversation with a pool, beside the one that carries the client's request.
//!
//! Whatever asks for it says where to and what; target, attempts, retry rule and the health of endpoints are those of
//! any request. Nothing of it goes to a client: who asked gets the head and the start of the body. A call owns all that
//! it needs, so that it can outlive the exchange that began it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use sluice_config::{GlobalSettings, Retry, Timeouts};

use super::attempts::{Attempts, DEFAULT_RETRY, DEFAULT_TIMEOUTS, Rules, pick};
use crate::failure::{Failure, FailureKind};
use crate::policy::RetryPolicy;
use crate::registry::{Admission, Pool};
use crate::route::Route;
use crate::snapshot::Held;
use crate::upstream::attempt::{KeepAlive, Upstream};

/// What is asked of a pool.
#[derive(Debug)]
pub struct Subrequest {
    /// Whom.
    pub pool: Arc<Pool>,
    /// The method.
    pub method: Method,
    /// Path and query.
    pub target: Box<str>,
    /// All fields but those of framing and connection; `Host` is one of them.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// The body, whole.
    pub body: Bytes,
    /// The name that is asked for in TLS; without one, none is.
    pub server_name: Option<Arc<str>>,
    /// How long connections are kept; `None` is as for any request.
    pub keep_alive: Option<KeepAlive>,
    /// Bytes of the response's body that are read; more end the conversation.
    pub most_body: usize,
    /// Whether what is read of it is given back, too.
    pub wants_body: bool,
    /// Nobody wants to know what is in the response, nor may the request be sent a second time once an endpoint can have
    /// seen it.
    pub is_copy: bool,
    /// A client waits for the response: once an endpoint has taken the connection there is no
    /// further attempt, which would double the time of a slow endpoint.
    pub is_single: bool,
    /// The rule whose timeouts and retries hold; without one, the global ones do.
    pub route: Option<Held<Route>>,
    /// Global settings.
    pub settings: Arc<GlobalSettings>,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// All fields, as they were sent.
    pub fields: HeaderMap,
    /// The body, free of its coding.
    pub body: Bytes,
    /// Whether that is all of the body.
    pub whole: bool,
}

/// Why nothing came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// The pool has no endpoint.
    NoEndpoint,
    /// The last attempt failed like this.
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

/// A call under way.
#[derive(Debug)]
pub struct Call {
    /// What is asked.
    pub subrequest: Subrequest,
    pub(super) attempts: Attempts,
}

impl Subrequest {
    /// Whether the request fails without a response to this: a copy is dropped, and an answer
    /// without its page goes out plain.
    pub(crate) fn is_needed(&self) -> bool {
        !self.is_copy && !self.wants_body
    }
}

impl Call {
    /// Nothing is sent yet.
    pub fn new(subrequest: Subrequest) -> Self {
        Self { subrequest, attempts: Attempts::default() }
    }

    /// The endpoint for the next attempt; `None` where there is none.
    pub fn pick(&mut self) -> Option<Upstream> {
        let Subrequest { pool, method, route, settings, keep_alive, server_name, .. } = &self.subrequest;
        let retry_same_endpoint = self.attempts.retry_same_endpoint.take();
        let again = retry_same_endpoint.is_some();
        let now = Instant::now();
        let endpoint = match retry_same_endpoint {
            Some(endpoint) => endpoint,
            None => pick(pool, None, &self.attempts.failed, now).ok()?,
        };
        let (retry, timeouts): (&Retry, &Timeouts) = match route {
            Some(route) => (&route.policies.retry, &route.policies.timeouts),
            None => (&DEFAULT_RETRY, &DEFAULT_TIMEOUTS),
        };
        let rules = Rules {
            now,
            policy: RetryPolicy::new(retry, settings, method),
            timeouts,
            settings,
            keep_alive: keep_alive.unwrap_or_else(|| KeepAlive::of(settings)),
            server_name: server_name.as_ref(),
            protocol: pool.protocol(),
            tls: None,
        };
        Some(self.attempts.begin(&endpoint, again, &rules))
    }

    /// Asks the endpoint of this attempt for room for a connection.
    pub fn ask_for_room(&mut self) -> Admission {
        self.attempts.in_flight.as_mut().map_or(Admission::Given, |on_its_way| on_its_way.ask())
    }

    /// This attempt has got a connection without room for a new one.
    pub fn needs_no_room(&mut self) {
        if let Some(on_its_way) = &mut self.attempts.in_flight {
            on_its_way.go();
        }
    }

    /// The connection of this attempt stands.
    pub fn connected(&mut self, address: SocketAddr, reused: bool) {
        self.attempts.connected(address, reused);
    }

    /// The attempt failed. Says whether there is another.
    pub fn failed(&mut self, failure: &Failure) -> bool {
        let Subrequest { pool, is_copy, is_single, .. } = &self.subrequest;
        let was_connected = self.attempts.all.last().is_some_and(|attempt| attempt.connected.is_some());
        let again = self.attempts.failed(Some(pool), failure, StatusCode::BAD_GATEWAY);
        // A stale connection was no attempt.
        let is_over = !failure.stale && (*is_copy && failure.sent || *is_single && was_connected);
        again && !is_over
    }

    /// There is a response head. Says whether it is dropped for another attempt.
    pub fn responded(&mut self, status: StatusCode) -> bool {
        let Subrequest { pool, is_copy, is_single, .. } = &self.subrequest;
        self.attempts.responded(Some(pool), status, !is_copy && !is_single)
    }
}
