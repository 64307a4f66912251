//! State of a request in Pingora's phases.

use std::sync::Arc;

use http::StatusCode;
use pingora_core::{Error, ErrorType};
use pingora_proxy::Session;
use tokio::time::Instant;

use super::Result;
use super::cache_context::CacheContext;
use super::connector::Connector;
use super::shared_request::Handle;
use crate::pipeline::Originator;
use crate::pipeline::{Exchange, Failure, MOST_INTERIM, Next};

/// The state of one request in Pingora's phases.
#[derive(Default)]
pub(crate) struct ProxyContext {
    /// State shared with the task that runs the engine.
    pub(super) handle: Option<Handle>,
    /// The pipeline's decision about a response head that is not relayed.
    pub(super) pending: Option<Next>,
    /// The current attempt uses HTTP/2.
    pub(super) http2: bool,
    /// The connection to the endpoint is closed after the response.
    pub(super) upstream_close: bool,
    /// Interim responses received.
    interims: u32,
    /// Makes the connection of the current attempt, if Pingora's pool has none.
    pub(super) connector: Option<Arc<Connector>>,
    /// The request fetches a stale response again, and has no client.
    pub(super) is_refresh: bool,
    /// The state of the cache.
    pub(super) cache: CacheContext,
    /// When the request first had to wait for a connection or for the endpoint.
    pub(super) waited_since: Option<Instant>,
}

impl ProxyContext {
    /// Attaches the shared state of the session's request.
    pub(super) fn attach(&mut self, session: &Session) {
        self.handle = Handle::of(session).cloned();
        self.is_refresh = self.handle.as_ref().is_some_and(|handle| handle.get().refresh.is_some());
    }

    /// Returns the shared state, which exists in all phases after the first.
    pub(super) fn handle(&self) -> Result<&Handle> {
        self.handle
            .as_ref()
            .ok_or_else(|| Error::explain(ErrorType::InternalError, "a session that is not ours"))
    }

    /// Runs a step of the pipeline.
    pub(super) fn exchange<T>(&self, step: impl FnOnce(&mut Exchange) -> T) -> Result<T> {
        Ok(step(&mut self.handle()?.get().exchange))
    }

    /// Counts an interim response; false if there are too many.
    pub(super) fn count_interim(&mut self) -> bool {
        self.interims += 1;
        self.interims <= MOST_INTERIM
    }

    /// Returns whether an interim response has arrived.
    pub(super) fn had_interim(&self) -> bool {
        self.interims > 0
    }

    pub(super) fn failed(&self, failure: Failure) -> Next {
        self.exchange(|exchange| exchange.failed(failure)).unwrap_or(Next::Abort)
    }

    /// Applies the pipeline's decision to Pingora's error: retry, or end the request.
    pub(super) fn follow(&self, next: Next, mut error: Box<Error>) -> Box<Error> {
        tracing::debug!(%error, ?next, "an attempt failed");
        error.set_retry(matches!(next, Next::Retry));
        if let (Next::Answer(answer), Ok(handle)) = (next, self.handle()) {
            handle.get().answer = Some(answer);
        }
        error
    }
}

/// Returns whether more heads follow one with this status (RFC 9110 §15.2).
pub(super) fn is_interim(status: StatusCode) -> bool {
    status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
}
