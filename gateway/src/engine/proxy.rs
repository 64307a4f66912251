//! Pingora's `ProxyHttp` as the engine: relays one request at a time between the client side, which
//! Pingora sees as a custom session (`session`), and HTTP/1.1 or HTTP/2 endpoints. It only converts
//! between Pingora's types and the pipeline's; the pipeline decides.
//!
//! Requests of rules with a cache (`caching`) use it with any `--driver`. The caller of `forward`
//! runs the checks before it, and sends the gateway's own answers after it.
//!
//! | Pingora's phase | step of the pipeline |
//! |---|---|
//! | `upstream_peer` | `pick` |
//! | `connected_to_upstream` | `connected` |
//! | `upstream_request_filter` | `upstream_request` |
//! | `fail_to_connect`, `error_while_proxy` | `failed` |
//! | `upstream_response_filter` | `upstream_response` |
//! | `response_filter` | `response` |
//! | phases of the cache | `caching` |

mod cache_context;
mod caching;
mod connector;
mod context;
mod engine;
mod epoch;
mod failure;
mod fields;
mod forward;
mod peer;
mod ranges;
mod refresh_permit;
mod session;
mod shared_request;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE};
use http::{StatusCode, Version};
use pingora_cache::key::HashBinary;
use pingora_cache::{CacheKey, CacheMeta, ForcedFreshness, HitHandler, RespCacheable};
use pingora_core::modules::http::HttpModules;
use pingora_core::protocols::Digest;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorType};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::{FailToProxy, ProxyHttp, ProxyWarnLogContext, RangeType, Session};
use tokio::task::yield_now;

pub(crate) use engine::prepare;
pub(super) use forward::forward;

use crate::connection::drain::Drain;
use crate::message::hop_by_hop;
use crate::message::response::stated_framing;
use crate::pipeline::Originator;
use crate::pipeline::{Exchange, FailureKind, Next};
use crate::process::descriptors::CapacityWait;
use crate::registry::EndpointAdmission;
use connector::{Clients, ConnectStage, Connector};
use context::ProxyContext;
use epoch::Epochs;

type Result<T> = pingora_core::Result<T>;

/// The service. One per worker.
pub(crate) struct Proxy {
    clients: Arc<Clients>,
    epochs: Epochs,
}

impl Proxy {
    /// Creates the service for a pool of this size.
    fn new(drain: Arc<Drain>, pool: usize) -> Self {
        Self { clients: Arc::new(Clients(drain)), epochs: Epochs::new(pool) }
    }
}

/// Waits until the attempt's endpoint admits one more request. Returns false if the wait exceeds
/// its limit.
async fn await_room(ctx: &mut ProxyContext) -> Result<bool> {
    loop {
        match ctx.exchange(|exchange| exchange.call().admit_connection())? {
            EndpointAdmission::Given => return Ok(true),
            EndpointAdmission::Refused => return Ok(false),
            EndpointAdmission::Waits => {}
        }
        if !CapacityWait::new(&mut ctx.waited_since).for_endpoint().await {
            return Ok(false);
        }
    }
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = ProxyContext;

    fn new_ctx(&self) -> ProxyContext {
        ProxyContext::default()
    }

    /// Installs no modules: Pingora's compression module would cost every request and never be
    /// used.
    fn init_downstream_modules(&self, _modules: &mut HttpModules) {}

    async fn early_request_filter(&self, session: &mut Session, ctx: &mut ProxyContext) -> Result<()> {
        ctx.attach(session);
        Ok(())
    }

    async fn upstream_peer(&self, session: &mut Session, ctx: &mut ProxyContext) -> Result<Box<HttpPeer>> {
        if ctx.connector.is_some() {
            // Another attempt. A refusal may arrive without a wait, so other tasks and the shutdown
            // get their turn here.
            yield_now().await;
        }
        loop {
            let upstream = match ctx.exchange(Exchange::pick)? {
                Ok(upstream) => upstream,
                Err(answer) => {
                    ctx.handle()?.get().answer = Some(answer);
                    return Error::e_explain(ErrorType::InternalError, "no endpoint");
                }
            };
            if await_room(ctx).await? {
                let reuse = self.epochs.next(&upstream);
                ctx.upstream_close = !reuse.keep;
                let http2 = upstream.protocol.is_http2();
                ctx.http2 = http2;
                // Pingora's read timeout would start with the head, while the request body is still
                // sent, so the session applies it. A refresh has no session of ours, and in a
                // tunnel the session does not wait for the endpoint.
                let by_pingora = ctx.is_refresh || session.is_upgrade_req();
                {
                    let mut shared = ctx.handle()?.get();
                    shared.http2 = http2;
                    shared.read_timeout = upstream.read_timeout.filter(|_| !by_pingora);
                }
                let connector = Connector::new(self.clients.clone(), &upstream);
                ctx.connector = Some(connector.clone());
                ctx.cache.begin_attempt();
                let mut peer = peer::peer(&upstream, reuse, connector);
                peer.options.read_timeout = upstream.read_timeout.filter(|_| by_pingora);
                return Ok(Box::new(peer));
            }
            match ctx.failed(failure::before_connecting(FailureKind::Shortage)) {
                Next::Retry => {}
                next => return Err(ctx.follow(next, Error::new(connector::NO_ROOM))),
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
        ctx: &mut ProxyContext,
    ) -> Result<()> {
        if let Some(address) = peer._address.as_inet() {
            ctx.exchange(|exchange| exchange.call().connected(*address, reused))?;
        }
        Ok(())
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        request: &mut RequestHeader,
        ctx: &mut ProxyContext,
    ) -> Result<()> {
        let is_refresh = ctx.is_refresh;
        let http_1_0 = ctx.exchange(|exchange| {
            // The head of a refresh is prepared already.
            if !is_refresh {
                exchange.upstream_request(request);
            }
            exchange.speaks_http_1_0()
        })?;
        if http_1_0 {
            request.set_version(Version::HTTP_10);
        }
        if ctx.http2 {
            // Connection-specific fields are forbidden in HTTP/2 (RFC 9113 §8.2.2).
            for name in [&CONNECTION, &UPGRADE, &TRANSFER_ENCODING] {
                request.remove_header(name);
            }
            if hop_by_hop::takes_trailers(&session.req_header().headers) {
                request.insert_header(TE, HeaderValue::from_static("trailers"))?;
            }
        } else if ctx.upstream_close && !request.headers.contains_key(CONNECTION) {
            request.insert_header(CONNECTION, HeaderValue::from_static("close"))?;
        }
        Ok(())
    }

    fn fail_to_connect(
        &self,
        _session: &mut Session,
        _peer: &HttpPeer,
        ctx: &mut ProxyContext,
        error: Box<Error>,
    ) -> Box<Error> {
        let stage = ctx.connector.as_ref().map_or(ConnectStage::Waiting, |connector| connector.stage());
        let next = ctx.failed(failure::to_connect(&error, stage));
        ctx.follow(next, error)
    }

    fn error_while_proxy(
        &self,
        _peer: &HttpPeer,
        _session: &mut Session,
        mut error: Box<Error>,
        ctx: &mut ProxyContext,
        reused: bool,
    ) -> Box<Error> {
        let Ok(handle) = ctx.handle() else { return error };
        let (failed, replayable, started, ended) = {
            let shared = handle.get();
            (shared.failed, shared.replayable, shared.started, shared.ended)
        };
        if ended {
            // The response is complete, so the rest of the request is not needed.
            error.set_retry(false);
            return error;
        }
        // An endpoint that has sent an interim response had the request.
        let untouched = reused && !ctx.had_interim();
        let next = match ctx.pending.take() {
            Some(next) => next,
            None => ctx.failed(failure::while_proxying(&error, failed, untouched, replayable, started)),
        };
        ctx.follow(next, error)
    }

    async fn upstream_response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut ProxyContext,
    ) -> Result<()> {
        if context::is_interim(response.status) {
            return match ctx.count_interim() {
                true => ctx.exchange(|exchange| exchange.interim(response)),
                false => {
                    Err(Error::explain(ErrorType::InvalidHTTPHeader, "interim responses without end")
                        .into_up())
                }
            };
        }
        if response.status == StatusCode::SWITCHING_PROTOCOLS && !session.is_upgrade_req() {
            return Err(Error::explain(ErrorType::InvalidHTTPHeader, "unrequested 101").into_up());
        }
        if hop_by_hop::has_too_many_options(response) {
            return Err(
                Error::explain(ErrorType::InvalidHTTPHeader, "too many options in Connection").into_up()
            );
        }
        // Pingora reads other codings to the end of the connection or of the last chunk, and does
        // not decode them.
        if !ctx.http2 && stated_framing(response, response.version == Version::HTTP_11).is_err() {
            return Err(Error::explain(ErrorType::InvalidHTTPHeader, "an ambiguous framing").into_up());
        }
        let next = match ctx.cache.take_judgement() {
            Some(next) => next,
            None => {
                let mut shared = ctx.handle()?.get();
                let replayable = shared.replayable;
                shared.exchange.upstream_response(response.status, response, replayable)
            }
        };
        if next.is_none() {
            return Ok(());
        }
        ctx.pending = next;
        Err(Error::explain(ErrorType::HTTPStatus(response.status.as_u16()), "not relayed").into_up())
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut ProxyContext,
    ) -> Result<()> {
        if context::is_interim(response.status) || ctx.is_refresh {
            return Ok(());
        }
        let status = caching::status(session, ctx);
        ctx.exchange(|exchange| {
            if let Some(status) = status {
                exchange.set_cache_status(status);
            }
            exchange.response(response);
        })
    }

    fn request_cache_filter(&self, session: &mut Session, ctx: &mut ProxyContext) -> Result<()> {
        caching::enable(session, ctx)
    }

    fn cache_key_callback(&self, _session: &Session, ctx: &mut ProxyContext) -> Result<CacheKey> {
        caching::key(ctx)
    }

    async fn cache_hit_filter(
        &self,
        session: &mut Session,
        meta: &CacheMeta,
        hit_handler: &mut HitHandler,
        is_fresh: bool,
        ctx: &mut ProxyContext,
    ) -> Result<Option<ForcedFreshness>> {
        if !ctx.is_refresh && !caching::is_readable(session, hit_handler).await {
            return Ok(Some(ForcedFreshness::ForceMiss));
        }
        caching::found(session, meta, is_fresh, ctx);
        Ok(None)
    }

    fn response_cache_filter(
        &self,
        _session: &Session,
        response: &ResponseHeader,
        ctx: &mut ProxyContext,
    ) -> Result<RespCacheable> {
        caching::decide(response, ctx)
    }

    fn cache_vary_filter(
        &self,
        meta: &CacheMeta,
        ctx: &mut ProxyContext,
        request: &RequestHeader,
    ) -> Option<HashBinary> {
        caching::select(meta, request, ctx)
    }

    fn range_header_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        _ctx: &mut ProxyContext,
    ) -> RangeType {
        ranges::apply(session.req_header(), response)
    }

    fn upstream_response_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        _end_of_stream: bool,
        ctx: &mut ProxyContext,
    ) -> Result<Option<Duration>> {
        caching::count(session, body.as_ref(), ctx).map(|()| None)
    }

    fn should_serve_stale(
        &self,
        session: &mut Session,
        ctx: &mut ProxyContext,
        error: Option<&Error>,
    ) -> bool {
        caching::sends_stale(session, error, ctx)
    }

    /// Sends nothing: the answer is stored and sent when Pingora has finished.
    async fn fail_to_proxy(
        &self,
        _session: &mut Session,
        _error: &Error,
        _ctx: &mut ProxyContext,
    ) -> FailToProxy {
        FailToProxy { error_code: 0, can_reuse_downstream: false }
    }

    /// Suppresses Pingora's log: it would contain an error for every client that leaves. The access
    /// log and the metrics report failures.
    fn suppress_error_log(&self, _session: &Session, _ctx: &ProxyContext, _error: &Error) -> bool {
        true
    }

    fn suppress_proxy_warn_log(
        &self,
        _session: &Session,
        _ctx: &ProxyContext,
        _error: &Error,
        _context: ProxyWarnLogContext,
    ) -> bool {
        true
    }
}
