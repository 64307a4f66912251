//! What the proxy keeps of one request.

use std::sync::Arc;

use http::StatusCode;
use pingora_core::{Error, ErrorType};
use pingora_proxy::Session;
use tokio::time::Instant;

use super::Result;
use super::l4::Connector;
use crate::downstream::http2::Streams;
use crate::downstream::link::{Client, Link};
use crate::pipeline::{Answer, Exchange, Failure, MOST_INTERIM, Next};

/// The state of one request in Pingora's phases.
#[derive(Default)]
pub(crate) struct Context {
    /// The pipeline's state; boxed, because Pingora moves this about.
    pub(super) exchange: Option<Box<Exchange>>,
    /// The HTTP/1 connection; `None` for HTTP/2.
    pub(super) link: Option<Arc<Link>>,
    /// The streams of an HTTP/2 connection; `None` for HTTP/1.
    pub(super) streams: Option<Arc<Streams>>,
    /// What `fail_to_proxy` shall send.
    pub(super) answer: Option<Answer>,
    /// What the pipeline said to a response head that is not relayed.
    pub(super) pending: Option<Next>,
    /// The connection to the endpoint is not kept.
    pub(super) upstream_close: bool,
    /// An answer of our own went out whole.
    pub(super) answered: bool,
    /// Interim responses so far.
    interims: u32,
    /// What makes the connection of the present attempt, where Pingora has none.
    pub(super) connector: Option<Arc<Connector>>,
    /// When the request first had to wait for room.
    pub(super) waited_since: Option<Instant>,
}

impl Context {
    /// Finds the connection that the session came from.
    pub(super) fn attach(&mut self, session: &Session) -> Result<()> {
        let client = client(session)?;
        if let Some(link) = &client.http1 {
            link.begin();
            self.link = Some(link.clone());
        }
        self.streams = client.http2.clone();
        Ok(())
    }

    /// The pipeline's state. There is one in all phases after `request_filter`.
    pub(super) fn exchange(&mut self) -> Result<&mut Exchange> {
        self.exchange.as_deref_mut().ok_or_else(|| {
            Error::explain(ErrorType::InternalError, "a phase before the request was taken in")
        })
    }

    /// Counts an interim response; false when there are too many.
    pub(super) fn count_interim(&mut self) -> bool {
        self.interims += 1;
        self.interims <= MOST_INTERIM
    }

    /// Whether the client has left. One of HTTP/2 takes its stream back, of which Pingora does not tell.
    pub(super) fn has_left(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.has_left())
    }

    pub(super) fn failed(&mut self, failure: Failure) -> Next {
        self.exchange.as_deref_mut().map_or(Next::Abort, |exchange| exchange.failed(failure))
    }

    /// Makes Pingora do what the pipeline says.
    pub(super) fn follow(&mut self, next: Next, mut error: Box<Error>) -> Box<Error> {
        tracing::debug!(%error, ?next, "a try failed");
        error.set_retry(matches!(next, Next::Retry));
        if let Next::Answer(answer) = next {
            self.answer = Some(answer);
        }
        error
    }
}

/// The connection behind a session.
pub(super) fn client(session: &Session) -> Result<&Client> {
    Client::of(session.digest().and_then(|digest| digest.proxy_digest.as_deref()))
        .ok_or_else(|| Error::explain(ErrorType::InternalError, "a session without our own stream"))
}

/// Whether more heads follow one with this status (RFC 9110 §15.2).
pub(super) fn is_interim(status: StatusCode) -> bool {
    status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
}

/// Whether a response has begun to go to the client.
pub(super) fn responded(session: &Session) -> bool {
    session.response_written().is_some_and(|head| !is_interim(head.status))
}
