//! What one request shares between Pingora's hooks, its client side and whoever waits for it to be
//! carried.
//!
//! All three run in one task, one after the other; the lock is there because Pingora's futures must
//! be `Send`, and is never waited for. It is held for single steps, never over an await.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_http::ResponseHeader;
use pingora_proxy::Session;

use super::failure;
use crate::engine::ForwardCounts;
use crate::io::budget::Reservation;
use crate::pipeline::Originator;
use crate::pipeline::{Answer, Exchange, FailureKind, Next};

/// The state of a request that Pingora's proxy serves, shared with its session.
#[derive(Debug)]
pub(super) struct SharedRequest {
    pub(super) exchange: Box<Exchange>,
    pub(super) counts: ForwardCounts,
    /// The answer to send instead of an endpoint's response.
    pub(super) answer: Option<Answer>,
    /// Why this side ended the request; Pingora only learns that there was an error.
    pub(super) failed: Option<FailureKind>,
    /// All of the request body that came can be sent again.
    pub(super) replayable: bool,
    /// Something of the final response went out.
    pub(super) started: bool,
    /// All of it.
    pub(super) ended: bool,
    /// The client has been listened to since this was last looked at.
    pub(super) listening: bool,
    /// The endpoint of this attempt speaks HTTP/2. Pingora passes no interim response of such a one
    /// on.
    pub(super) http2: bool,
    /// How long an endpoint of HTTP/2 may keep silent. Pingora would count from the head on, while
    /// the request body still moves.
    pub(super) read_timeout: Option<Duration>,
    /// For what Pingora has read ahead of a response whose client does not take it.
    pub(super) read_ahead: Reservation,
}

/// The handle that Pingora carries about as user data of a session.
#[derive(Clone, Debug)]
pub(super) struct Handle(Arc<Mutex<SharedRequest>>);

impl SharedRequest {
    pub(super) fn new(exchange: Box<Exchange>) -> Self {
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
        }
    }

    /// Ends the request although Pingora has not.
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

    /// What was carried, once nobody else has a handle.
    pub(super) fn into_inner(self) -> Option<SharedRequest> {
        let shared = Arc::into_inner(self.0)?;
        Some(shared.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// The digest that brings it to the hooks.
    pub(super) fn digest(&self) -> Arc<ProxyDigest> {
        let response = ResponseHeader::from(http::Response::new(()).into_parts().0);
        Arc::new(ProxyDigest::new(Box::new(response), Some(Box::new(self.clone()))))
    }

    /// The handle of a session that is ours.
    pub(super) fn of(session: &Session) -> Option<&Self> {
        session.digest()?.proxy_digest.as_ref()?.user_data.as_ref()?.downcast_ref()
    }
}

/// Nobody who has panicked comes back to what was locked.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
