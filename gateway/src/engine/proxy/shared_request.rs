//! State of one request shared by Pingora's hooks, its session and the task that runs the engine.
//!
//! All three run in one task, one after the other. The lock exists because Pingora's futures must
//! be `Send`; it is never contended, and never held across an await.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_http::ResponseHeader;
use pingora_proxy::Session;

use super::failure;
use super::refresh_permit::RefreshPermit;
use crate::engine::ForwardCounts;
use crate::io::budget::Reservation;
use crate::pipeline::Originator;
use crate::pipeline::{Answer, CachedRequest, Exchange, FailureKind, Next};

/// The state of a request that Pingora's proxy serves, shared with its session.
#[derive(Debug)]
pub(super) struct SharedRequest {
    pub(super) exchange: Box<Exchange>,
    pub(super) counts: ForwardCounts,
    /// The answer to send instead of an endpoint's response.
    pub(super) answer: Option<Answer>,
    /// Why the client side ended the request; Pingora's error does not contain the reason.
    pub(super) failed: Option<FailureKind>,
    /// The whole received request body can be sent again.
    pub(super) replayable: bool,
    /// A part of the final response was sent.
    pub(super) started: bool,
    /// The whole response was sent.
    pub(super) ended: bool,
    /// Pingora has watched for a closed client since the last check.
    pub(super) listening: bool,
    /// The endpoint of this attempt uses HTTP/2, whose interim responses Pingora does not relay.
    pub(super) http2: bool,
    /// Read timeout that the session applies. Pingora's own would start with the head, while the
    /// request body is still sent.
    pub(super) read_timeout: Option<Duration>,
    /// Memory for response bytes that Pingora has read ahead.
    pub(super) read_ahead: Reservation,
    /// The use of the cache.
    pub(super) cached: Option<CachedRequest>,
    /// The head of the request that fetches a stale response again.
    pub(super) refresh_head: Bytes,
    /// This request fetches a stale response again, and has no client.
    pub(super) refresh: Option<RefreshPermit>,
}

/// The handle that Pingora stores as user data of a session.
#[derive(Clone, Debug)]
pub(super) struct Handle(Arc<Mutex<SharedRequest>>);

impl SharedRequest {
    pub(super) fn new(exchange: Box<Exchange>, cached: Option<CachedRequest>) -> Self {
        Self {
            exchange,
            counts: ForwardCounts::default(),
            answer: None,
            failed: None,
            replayable: true,
            started: false,
            ended: false,
            listening: false,
            http2: false,
            read_timeout: None,
            read_ahead: Reservation::of_flow(),
            cached,
            refresh_head: Bytes::new(),
            refresh: None,
        }
    }

    /// Ends the request on the client side's behalf.
    pub(super) fn fail(&mut self, kind: FailureKind) {
        if let Next::Answer(answer) = self.exchange.failed(failure::before_connecting(kind)) {
            self.answer = Some(answer);
        }
        self.failed = Some(kind);
    }
}

impl Handle {
    pub(super) fn new(shared: SharedRequest) -> Self {
        Self(Arc::new(Mutex::new(shared)))
    }

    pub(super) fn get(&self) -> MutexGuard<'_, SharedRequest> {
        lock(&self.0)
    }

    /// Returns the state if no other handle exists.
    pub(super) fn into_inner(self) -> Option<SharedRequest> {
        let shared = Arc::into_inner(self.0)?;
        Some(shared.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a digest that passes the handle to the hooks.
    pub(super) fn digest(&self) -> Arc<ProxyDigest> {
        let response = ResponseHeader::from(http::Response::new(()).into_parts().0);
        Arc::new(ProxyDigest::new(Box::new(response), Some(Box::new(self.clone()))))
    }

    /// Returns the handle of a session made by this module.
    pub(super) fn of(session: &Session) -> Option<&Self> {
        session.digest()?.proxy_digest.as_ref()?.user_data.as_ref()?.downcast_ref()
    }
}

/// Ignores poisoning: after a panic the request's task ends and the state is not read again.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
