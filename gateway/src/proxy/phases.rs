//! Pingora's phases, in the order in which they come.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::HOST;
use http::{Method, StatusCode, Version};
use pingora_core::protocols::Digest;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::{FailToProxy, ProxyHttp, ProxyWarnLogContext, Session};

use super::{Context, Service, answer, peer, trouble};
use crate::connection::ConnectionInfo;
use crate::connection::info;
use crate::connection::io::ClientIo;
use crate::pipeline::{Exchange, Failure, Next, Outcome, RequestHead, Verdict};

/// How long what is left of a request body is read after an early answer, so that the connection stays.
const DRAIN_TIME: Duration = Duration::from_secs(5);
/// How long a client may take between two reads of a response (nginx `send_timeout`).
const CLIENT_SEND_TIME: Duration = Duration::from_secs(60);
/// Marks a response that is given up for another endpoint's.
const PASSED_OVER: ErrorType = ErrorType::Custom("another endpoint is tried");

#[async_trait]
impl ProxyHttp for Service {
    type CTX = Context;

    fn new_ctx(&self) -> Context {
        Context::default()
    }

    async fn early_request_filter(&self, session: &mut Session, context: &mut Context) -> Result<()> {
        let Some(connection) = facts(session) else { return Err(Error::new(ErrorType::InternalError)) };
        let last = client_io(session).is_some_and(|io| {
            io.release();
            io.is_last()
        });
        if last || self.drain.is_draining() {
            session.set_keepalive(None);
        }
        session.set_close_on_response_before_downstream_finish(false);
        session.set_total_drain_timeout(Some(DRAIN_TIME));
        session.set_read_timeout(Some(self.state.tuning.load().client_body_timeout));
        session.set_write_timeout(Some(CLIENT_SEND_TIME));
        if let Method::CONNECT | Method::TRACE = session.req_header().method {
            let line = format!("{} HTTP/2.0", session.req_header().method);
            let (exchange, answer) = Exchange::refuse(
                &self.state,
                &connection,
                line.as_bytes(),
                0,
                StatusCode::METHOD_NOT_ALLOWED,
            );
            context.answer = Some(answer);
            context.exchange = Some(Box::new(exchange));
            return Ok(());
        }
        let (mut exchange, verdict) = begin(&self.state, &connection, session);
        context.answer = match verdict {
            Verdict::Answer(answer) => Some(answer),
            Verdict::Forward => match exchange.pick() {
                Ok(upstream) => {
                    context.upstream = Some(upstream);
                    None
                }
                Err(answer) => Some(answer),
            },
        };
        context.exchange = Some(Box::new(exchange));
        Ok(())
    }

    async fn request_filter(&self, session: &mut Session, context: &mut Context) -> Result<bool> {
        let Some(answer) = context.answer.take() else { return Ok(false) };
        answer::write(session, &answer).await?;
        Ok(true)
    }

    async fn upstream_peer(&self, _session: &mut Session, context: &mut Context) -> Result<Box<HttpPeer>> {
        context.upstream_received = 0;
        let Some(exchange) = &mut context.exchange else { return Err(Error::new(ErrorType::InternalError)) };
        match context.upstream.take().map_or_else(|| exchange.pick(), Ok) {
            Ok(upstream) => Ok(peer::peer(&upstream)),
            Err(answer) => {
                let status = answer.status.as_u16();
                context.answer = Some(answer);
                Err(Error::new(ErrorType::HTTPStatus(status)))
            }
        }
    }

    fn fail_to_connect(
        &self,
        session: &mut Session,
        _peer: &HttpPeer,
        context: &mut Context,
        error: Box<Error>,
    ) -> Box<Error> {
        let failure = trouble::connecting(session, &error);
        after(context, failure, error)
    }

    async fn connected_to_upstream(
        &self,
        _session: &mut Session,
        reused: bool,
        peer: &HttpPeer,
        _fd: RawFd,
        _digest: Option<&Digest>,
        context: &mut Context,
    ) -> Result<()> {
        if let (Some(exchange), Some(address)) = (&mut context.exchange, peer._address.as_inet()) {
            exchange.connected(*address, reused);
        }
        Ok(())
    }

    async fn upstream_request_filter(
        &self,
        _session: &mut Session,
        head: &mut RequestHeader,
        context: &mut Context,
    ) -> Result<()> {
        if let Some(exchange) = &mut context.exchange {
            exchange.upstream_request(head);
        }
        Ok(())
    }

    async fn upstream_response_filter(
        &self,
        session: &mut Session,
        head: &mut ResponseHeader,
        context: &mut Context,
    ) -> Result<()> {
        let Some(exchange) = &mut context.exchange else { return Ok(()) };
        if is_interim(head.status) {
            return Ok(());
        }
        let replayable = !session.as_ref().retry_buffer_truncated();
        match exchange.upstream_response(head.status, &head.headers, replayable) {
            Next::Retry => {
                context.passed_over = true;
                let mut error = Error::new(PASSED_OVER);
                error.set_retry(true);
                Err(error)
            }
            Next::Relay | Next::Answer(_) | Next::Abort => Ok(()),
        }
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        head: &mut ResponseHeader,
        context: &mut Context,
    ) -> Result<()> {
        if is_interim(head.status) {
            return Ok(());
        }
        if self.drain.is_draining() {
            session.set_keepalive(None);
        }
        if let Some(exchange) = &mut context.exchange {
            exchange.response(head.status, head);
        }
        if head.status == StatusCode::SWITCHING_PROTOCOLS
            && let Some(io) = client_io(session)
        {
            io.upgrade();
        }
        Ok(())
    }

    fn upstream_response_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        _end: bool,
        context: &mut Context,
    ) -> Result<Option<Duration>> {
        context.upstream_received += body.as_ref().map_or(0, |octets| octets.len() as u64);
        Ok(None)
    }

    fn error_while_proxy(
        &self,
        _peer: &HttpPeer,
        session: &mut Session,
        mut error: Box<Error>,
        context: &mut Context,
        reused: bool,
    ) -> Box<Error> {
        if std::mem::take(&mut context.passed_over) {
            error.set_retry(true);
            return error;
        }
        let failure = trouble::on_connection(session, &error, reused);
        after(context, failure, error)
    }

    async fn fail_to_proxy(
        &self,
        session: &mut Session,
        error: &Error,
        context: &mut Context,
    ) -> FailToProxy {
        session.set_keepalive(None);
        let answer = context.answer.take().filter(|_| !trouble::has_begun(session));
        let code = match &answer {
            Some(answer) => answer::write(session, answer).await.map_or(0, |()| answer.status.as_u16()),
            None => 0,
        };
        if code == 0 {
            tracing::debug!(%error, "a response could not be sent whole");
        }
        FailToProxy { error_code: code, can_reuse_downstream: false }
    }

    async fn logging(&self, session: &mut Session, error: Option<&Error>, context: &mut Context) {
        let Some(mut exchange) = context.exchange.take() else { return };
        let head = session.response_written().filter(|head| !is_interim(head.status));
        let head_length = head.map_or(0, length);
        let status = head.map(|head| head.status);
        let body_sent = session.body_bytes_sent() as u64;
        exchange.end(Outcome {
            status,
            body_sent,
            bytes_sent: body_sent + head_length,
            body_received: session.body_bytes_read() as u64,
            upstream_received: context.upstream_received,
            aborted: error.is_some(),
        });
    }

    fn suppress_error_log(&self, _session: &Session, _context: &Context, _error: &Error) -> bool {
        true
    }

    fn suppress_proxy_warn_log(
        &self,
        _session: &Session,
        _context: &Context,
        _error: &Error,
        _what: ProxyWarnLogContext,
    ) -> bool {
        true
    }
}

fn begin(
    state: &Arc<crate::state::State>,
    connection: &Arc<ConnectionInfo>,
    session: &Session,
) -> (Exchange, Verdict) {
    let head = session.req_header();
    let in_host = || head.headers.get(HOST).and_then(|host| host.to_str().ok());
    let authority = match head.version {
        Version::HTTP_2 => head.uri.authority().map(|authority| authority.as_str()).or_else(in_host),
        _ => in_host(),
    };
    let length = match session.as_ref().as_http1() {
        Some(http1) => http1.get_headers_raw_bytes().len(),
        None => head.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum(),
    };
    let target = match head.version {
        Version::HTTP_2 => head.uri.path_and_query().map_or("/", |target| target.as_str()),
        // Our own check let UTF-8 pass and nothing else.
        _ => str::from_utf8(head.raw_path()).unwrap_or("/"),
    };
    let head = RequestHead {
        method: &head.method,
        target,
        authority: authority.unwrap_or(""),
        version: head.version,
        headers: &head.headers,
        length,
    };
    Exchange::begin(state, connection, &head)
}

/// Takes a failure to the pipeline and its word back to Pingora.
fn after(context: &mut Context, failure: Failure, mut error: Box<Error>) -> Box<Error> {
    let next = context.exchange.as_mut().map_or(Next::Abort, |exchange| exchange.failed(failure));
    error.set_retry(matches!(next, Next::Retry));
    if let Next::Answer(answer) = next {
        context.answer = Some(answer);
    }
    error
}

/// What the connection carries.
fn facts(session: &Session) -> Option<Arc<ConnectionInfo>> {
    info::of(session.digest()?.proxy_digest.as_ref()?).cloned()
}

/// The stream below an HTTP/1 session.
fn client_io(session: &Session) -> Option<&ClientIo> {
    session.as_ref().stream()?.as_any().downcast_ref()
}

fn is_interim(status: StatusCode) -> bool {
    status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
}

/// Octets of a response head on the wire.
fn length(head: &ResponseHeader) -> u64 {
    const STATUS_LINE: usize = "HTTP/1.1 200 \r\n\r\n".len();
    let reason = head.status.canonical_reason().map_or(0, str::len);
    let fields: usize = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    (STATUS_LINE + reason + fields) as u64
}
