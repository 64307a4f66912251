//! Drives the pipeline from Pingora's phases, for every pair of protocols (`direct` takes the commonest). Thin: it turns Pingora's types into the pipeline's and back, and
//! decides nothing.
//!
//! | Pingora's phase | the pipeline's step |
//! |---|---|
//! | `request_filter` | `begin`: an answer, or on |
//! | `upstream_peer` | `pick` |
//! | `connected_to_upstream` | `connected` |
//! | `upstream_request_filter` | `upstream_request` |
//! | `fail_to_connect`, `error_while_proxy` | `failed` |
//! | `upstream_response_filter` | `upstream_response` |
//! | `response_filter` | `response` |
//! | `fail_to_proxy` | writes the answer that a step before left |
//! | `logging` | `end` |

mod answer;
mod context;
mod engine;
mod epoch;
mod failure;
mod fields;
mod l4;
mod peer;
mod request;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::{StatusCode, Version};
use pingora_core::modules::http::HttpModules;
use pingora_core::protocols::Digest;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorSource, ErrorType};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::{FailToProxy, ProxyHttp, ProxyWarnLogContext, Session};
use tokio::task::yield_now;

pub(crate) use engine::{Engine, engine, never, prepare};

use crate::descriptors::Wait;
use crate::drain::Drain;
use crate::engine::call::Ground;
use crate::engine::questions::Decision;
use crate::message::hop_by_hop;
use crate::pipeline::{FailureKind, Next, Outcome};
use crate::registry::Admission;
use crate::state::State;
use context::Context;
use epoch::Epochs;
use l4::{Connector, Stage};

type Result<T> = pingora_core::Result<T>;

/// The service. One per worker.
pub(crate) struct Proxy {
    state: Arc<State>,
    drain: Arc<Drain>,
    epochs: Epochs,
    /// Idle connections that there is room for.
    idle: usize,
}

impl Proxy {
    pub(crate) fn new(state: Arc<State>, drain: Arc<Drain>, idle: usize) -> Self {
        Self { state, drain, epochs: Epochs::default(), idle }
    }

    fn ground(&self) -> Ground<'_> {
        Ground { drain: &self.drain, idle: self.idle }
    }

    /// Whether the client's connection may go on after this response; tells Pingora if not.
    fn settle_connection(&self, session: &mut Session, ctx: &Context) {
        let Some(link) = &ctx.link else { return };
        if self.drain.phase() > crate::drain::Phase::Serving || link.is_last() || !link.can_drain() {
            session.set_keepalive(None);
        }
    }
}

/// Waits until the endpoint of this attempt may have one more request. False when it may not in time.
async fn await_room(ctx: &mut Context) -> Result<bool> {
    loop {
        match ctx.exchange()?.ask_for_room() {
            Admission::Given => return Ok(true),
            Admission::Refused => return Ok(false),
            Admission::Waits => {}
        }
        if ctx.has_left() || !Wait::new(&mut ctx.waited_since).for_endpoint().await {
            return Ok(false);
        }
    }
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = Context;

    fn new_ctx(&self) -> Context {
        Context::default()
    }

    /// None: Pingora's compression module would cost every request a little and do nothing.
    fn init_downstream_modules(&self, _modules: &mut HttpModules) {}

    async fn early_request_filter(&self, session: &mut Session, ctx: &mut Context) -> Result<()> {
        ctx.attach(session)
    }

    async fn request_filter(&self, session: &mut Session, ctx: &mut Context) -> Result<bool> {
        request::prepare(&self.state, session);
        match request::begin(&self.state, self.ground(), session, ctx).await? {
            Decision::Answer(answer) => {
                self.answer(session, ctx, &answer).await?;
                Ok(true)
            }
            Decision::Forward => Ok(false),
            Decision::Left => Err(Error::new(l4::LEFT)),
        }
    }

    async fn upstream_peer(&self, _session: &mut Session, ctx: &mut Context) -> Result<Box<HttpPeer>> {
        if ctx.connector.is_some() {
            // Another attempt. A refusal may come without a wait: others have their turn, and the end of the program its.
            yield_now().await;
            if ctx.has_left() {
                ctx.failed(failure::before_connecting(FailureKind::Client));
                return Err(Error::new(l4::LEFT));
            }
        }
        loop {
            let upstream = match ctx.exchange()?.pick() {
                Ok(upstream) => upstream,
                Err(answer) => {
                    ctx.answer = Some(answer);
                    return Error::e_explain(ErrorType::InternalError, "no endpoint");
                }
            };
            if await_room(ctx).await? {
                let reuse = self.epochs.next(&upstream);
                ctx.upstream_close = !reuse.keep;
                let connector = Connector::new(self.drain.clone(), ctx.link.clone());
                ctx.connector = Some(connector.clone());
                return Ok(Box::new(peer::peer(&upstream, reuse, connector)));
            }
            match ctx.failed(failure::before_connecting(FailureKind::Shortage)) {
                Next::Retry => {}
                next => return Err(ctx.follow(next, Error::new(l4::NO_ROOM))),
            }
        }
    }

    async fn connected_to_upstream(
        &self,
        _session: &mut Session,
        reused: bool,
        peer: &HttpPeer,
        _fd: std::os::unix::io::RawFd,
        _digest: Option<&Digest>,
        ctx: &mut Context,
    ) -> Result<()> {
        if let Some(address) = peer._address.as_inet() {
            ctx.exchange()?.connected(*address, reused);
        }
        Ok(())
    }

    async fn upstream_request_filter(
        &self,
        _session: &mut Session,
        request: &mut RequestHeader,
        ctx: &mut Context,
    ) -> Result<()> {
        ctx.exchange()?.upstream_request(request);
        if ctx.upstream_close && !request.headers.contains_key(UPGRADE) {
            request.insert_header(CONNECTION, HeaderValue::from_static("close"))?;
        }
        Ok(())
    }

    fn fail_to_connect(
        &self,
        session: &mut Session,
        _peer: &HttpPeer,
        ctx: &mut Context,
        error: Box<Error>,
    ) -> Box<Error> {
        let stage = ctx.connector.as_ref().map_or(Stage::Waiting, |connector| connector.stage());
        let next = ctx.failed(failure::to_connect(&error, stage, context::responded(session)));
        ctx.follow(next, error)
    }

    fn error_while_proxy(
        &self,
        _peer: &HttpPeer,
        session: &mut Session,
        error: Box<Error>,
        ctx: &mut Context,
        reused: bool,
    ) -> Box<Error> {
        let next = match ctx.pending.take() {
            Some(next) => next,
            None => {
                let replayable = !session.as_ref().retry_buffer_truncated();
                let malformed = ctx.link.as_ref().is_some_and(|link| link.is_malformed());
                let responded = context::responded(session);
                ctx.failed(failure::while_proxying(&error, malformed, reused, replayable, responded))
            }
        };
        ctx.follow(next, error)
    }

    async fn upstream_response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut Context,
    ) -> Result<()> {
        if context::is_interim(response.status) {
            return match ctx.count_interim() {
                true => Ok(()),
                false => {
                    Err(Error::explain(ErrorType::InvalidHTTPHeader, "interim responses without end")
                        .into_up())
                }
            };
        }
        if response.status == StatusCode::SWITCHING_PROTOCOLS && !session.is_upgrade_req() {
            return Err(Error::explain(ErrorType::InvalidHTTPHeader, "101 that nobody asked for").into_up());
        }
        if hop_by_hop::has_too_many_options(response) {
            return Err(
                Error::explain(ErrorType::InvalidHTTPHeader, "too many options in Connection").into_up()
            );
        }
        let replayable = !session.as_ref().retry_buffer_truncated();
        match ctx.exchange()?.upstream_response(response.status, replayable) {
            Next::Relay => Ok(()),
            next => {
                ctx.pending = Some(next);
                Err(Error::explain(ErrorType::HTTPStatus(response.status.as_u16()), "not relayed").into_up())
            }
        }
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut Context,
    ) -> Result<()> {
        if !context::is_interim(response.status) {
            ctx.exchange()?.response(response);
            self.settle_connection(session, ctx);
            response.set_version(Version::HTTP_11);
            if session.req_header().version == Version::HTTP_10 {
                // Pingora chunks what has no length, which HTTP/1.0 cannot read (RFC 9112 §6.1): such a body ends
                // with the connection.
                if response.remove_header(&TRANSFER_ENCODING).is_some() {
                    session.set_keepalive(None);
                }
            }
        }
        if response.status == StatusCode::SWITCHING_PROTOCOLS {
            // No body is waited for any more. An idle connection is the endpoint's read timeout's business.
            session.set_read_timeout(None);
        }
        if let Some(link) = &ctx.link {
            link.responds(response.status, response.headers.contains_key(TRANSFER_ENCODING));
        }
        Ok(())
    }

    fn response_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        end: bool,
        ctx: &mut Context,
    ) -> Result<Option<std::time::Duration>> {
        if let Some(link) = &ctx.link {
            link.body_follows(body.as_ref().map_or(0, Bytes::len), end);
        }
        Ok(None)
    }

    async fn fail_to_proxy(&self, session: &mut Session, _error: &Error, ctx: &mut Context) -> FailToProxy {
        let mut error_code = 0;
        if let Some(answer) = ctx.answer.take().filter(|_| !context::responded(session))
            && self.answer(session, ctx, &answer).await.is_ok()
        {
            error_code = answer.status.as_u16();
            if let Some(link) = ctx.link.as_ref().filter(|_| session.get_keepalive().is_some()) {
                link.set_keep();
            }
        }
        // The connection loop takes the stream back by itself where it can go on.
        FailToProxy { error_code, can_reuse_downstream: false }
    }

    async fn logging(&self, session: &mut Session, error: Option<&Error>, ctx: &mut Context) {
        let Some(mut exchange) = ctx.exchange.take() else { return };
        let head = session.response_written().filter(|head| !context::is_interim(head.status));
        let status = head.map(|head| head.status);
        let body_sent = session.body_bytes_sent() as u64;
        let bytes_sent = match &ctx.link {
            Some(link) => link.sent(),
            None => head.map_or(0, |head| request::fields_length(&head.headers)) + body_sent,
        };
        let whole = error.is_none() || ctx.answered;
        if let Some(link) = ctx.link.as_ref().filter(|_| whole) {
            link.set_whole();
        }
        exchange.end(Outcome {
            status,
            body_sent,
            bytes_sent,
            body_received: session.body_bytes_read() as u64,
            upstream_received: session.upstream_body_bytes_received() as u64,
            aborted: !whole,
            ended: None,
        });
        let Some(streams) = &ctx.streams else { return };
        let by_client = error.is_some_and(|error| *error.esource() == ErrorSource::Downstream);
        streams.ended(!whole && by_client);
        if whole {
            request::drain(&self.state, session).await;
        }
    }

    /// The access log and the metrics tell. Pingora would write an error for every client that went away.
    fn suppress_error_log(&self, _session: &Session, _ctx: &Context, _error: &Error) -> bool {
        true
    }

    fn suppress_proxy_warn_log(
        &self,
        _session: &Session,
        _ctx: &Context,
        _error: &Error,
        _context: ProxyWarnLogContext,
    ) -> bool {
        true
    }
}
