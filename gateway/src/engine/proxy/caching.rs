//! The cache in Pingora's phases: `sluice.dev/cache`.
//!
//! Pingora looks for a stored response, evaluates conditions and ranges, and stores what an
//! endpoint sends. The functions here are its hooks. A stale response that is still sent is fetched
//! again by a request of its own (a refresh), which shares nothing with the client's request except
//! its head as the endpoint gets it, and its rule.

use std::time::SystemTime;

use bytes::{BufMut, Bytes, BytesMut};
use http::Method;
use http::header::{CONTENT_LENGTH, HeaderMap, RANGE};
use pingora_cache::{CacheKey, CacheMeta, CachePhase, HitHandler, NoCacheReason, RespCacheable};
use pingora_core::{Error, ErrorType};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::Session;

use super::Result;
use super::context::ProxyContext;
use super::ranges::first_byte;
use super::refresh_permit::RefreshPermit;
use super::shared_request::{Handle, SharedRequest};
use crate::cache::{self, CacheStatus, storable, variance};
use crate::pipeline::{Next, Originator};

/// Enables the cache for a request that uses it.
pub(super) fn enable(session: &mut Session, ctx: &ProxyContext) -> Result<()> {
    if let Some(cached) = &ctx.handle()?.get().cached {
        cached.store.enable(&mut session.cache);
    }
    Ok(())
}

/// Returns the key of the request.
pub(super) fn key(ctx: &ProxyContext) -> Result<CacheKey> {
    let shared = ctx.handle()?.get();
    let missing = || Error::explain(ErrorType::InternalError, "a request without a key");
    let cached = shared.cached.as_ref().ok_or_else(missing)?;
    Ok(cached.store.key(&cached.key))
}

/// Returns whether the body of a response that was found can be sent. It may be in a file, whose
/// beginning is read here: afterwards, a failure can only end the response.
pub(super) async fn is_readable(session: &Session, reader: &mut HitHandler) -> bool {
    let request = session.req_header();
    if request.method == Method::HEAD {
        return true;
    }
    let range = request.headers.get(RANGE).and_then(|range| range.to_str().ok());
    cache::is_readable(reader, |length| range.map_or(0, |range| first_byte(range, length))).await
}

/// A response was found.
pub(super) fn found(session: &mut Session, meta: &CacheMeta, is_fresh: bool, ctx: &mut ProxyContext) {
    if is_fresh {
        return;
    }
    ctx.cache.found_stale = true;
    if meta.fresh_sec() == 0 && meta.stale_while_revalidate_sec() == 0 {
        // Every request must ask the endpoint. One after the other, each would wait for all before
        // it.
        session.cache.set_cache_lock(None, None);
    }
}

/// Decides whether a response is stored.
pub(super) fn decide(response: &ResponseHeader, ctx: &ProxyContext) -> Result<RespCacheable> {
    let shared = ctx.handle()?.get();
    let Some(cached) = &shared.cached else {
        return Ok(RespCacheable::Uncacheable(NoCacheReason::InternalError));
    };
    let stated = response.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if stated.is_some_and(|stated: usize| stated > cached.store.most()) {
        return Ok(RespCacheable::Uncacheable(NoCacheReason::ResponseTooLarge));
    }
    Ok(storable(&cached.rules, response, SystemTime::now()))
}

/// Counts a piece of the body of a response that is being stored. Stops storing one that is too
/// large: other requests need not wait for it.
pub(super) fn count(session: &mut Session, piece: Option<&Bytes>, ctx: &mut ProxyContext) -> Result<()> {
    if !matches!(session.cache.phase(), CachePhase::Miss | CachePhase::Expired) {
        return Ok(());
    }
    ctx.cache.stored += piece.map_or(0, Bytes::len);
    let most = ctx.handle()?.get().cached.as_ref().map_or(0, |cached| cached.store.most());
    if ctx.cache.stored > most {
        session.cache.response_became_uncacheable(NoCacheReason::ResponseTooLarge);
        session.cache.disable(NoCacheReason::ResponseTooLarge);
    }
    Ok(())
}

/// Returns the hash of the fields that `Vary` of a response names.
pub(super) fn select(
    meta: &CacheMeta,
    request: &RequestHeader,
    ctx: &mut ProxyContext,
) -> Option<pingora_cache::key::HashBinary> {
    let ProxyContext { cache, is_refresh, handle, .. } = ctx;
    let prepare = || match handle {
        // The head of a refresh is prepared already.
        Some(handle) if !*is_refresh => prepared(request, &handle.get()).headers.clone(),
        _ => request.headers.clone(),
    };
    variance(meta.headers(), || &*cache.selecting.get_or_insert_with(prepare))
}

/// Decides whether a stale response is sent: while it is fetched again, or after `error`.
pub(super) fn sends_stale(session: &mut Session, error: Option<&Error>, ctx: &mut ProxyContext) -> bool {
    if ctx.is_refresh {
        return false;
    }
    let Some(error) = error else {
        // Another request fetches it, or a refresh does.
        return !session.cache.is_cache_lock_writer() || begin_refresh(session, ctx);
    };
    let Ok(handle) = ctx.handle().cloned() else { return false };
    let mut shared = handle.get();
    if shared.failed.is_some() {
        // The client's side has failed.
        return false;
    }
    let status = match error.etype() {
        ErrorType::HTTPStatus(code) if !ctx.cache.is_judged => http::StatusCode::from_u16(*code).ok(),
        _ => None,
    };
    if let Some(status) = status {
        let replayable = shared.replayable;
        let next = shared.exchange.upstream_response(status, &HeaderMap::new(), replayable);
        ctx.cache.is_judged = true;
        if let Some(Next::Retry) = next {
            ctx.cache.judged = next;
            return false;
        }
    }
    true
}

/// Prepares the request that fetches a stale response again; Pingora starts it from the session
/// next. Returns false if there are too many.
fn begin_refresh(session: &mut Session, ctx: &ProxyContext) -> bool {
    let (Some(permit), Ok(handle)) = (RefreshPermit::take(), ctx.handle()) else { return false };
    let refresh = {
        let mut shared = handle.get();
        let head = prepared(session.req_header(), &shared);
        shared.refresh_head = wire(&head);
        let mut refresh = SharedRequest::new(shared.exchange.refresh(), shared.cached.clone());
        refresh.refresh = Some(permit);
        refresh
    };
    let Some(digest) = session.digest_mut() else { return false };
    digest.proxy_digest = Some(Handle::new(refresh).digest());
    true
}

/// Returns the head of a request as the endpoint gets it.
fn prepared(request: &RequestHeader, shared: &SharedRequest) -> RequestHeader {
    let mut head = request.clone();
    shared.exchange.upstream_request(&mut head);
    head
}

/// Writes a head as HTTP/1.1.
fn wire(head: &RequestHeader) -> Bytes {
    let mut bytes = BytesMut::with_capacity(1024);
    bytes.put_slice(head.method.as_str().as_bytes());
    bytes.put_u8(b' ');
    bytes.put_slice(head.raw_path());
    bytes.put_slice(b" HTTP/1.1\r\n");
    head.header_to_h1_wire(&mut bytes);
    bytes.put_slice(b"\r\n");
    bytes.freeze()
}

/// Returns the outcome of the cache, once the head of the response is known; `None` if the request
/// does not use it.
pub(super) fn status(session: &Session, ctx: &ProxyContext) -> Option<CacheStatus> {
    Some(match session.cache.phase() {
        CachePhase::Disabled(NoCacheReason::NeverEnabled) => return None,
        CachePhase::Hit => CacheStatus::Hit,
        CachePhase::Stale => CacheStatus::Stale,
        CachePhase::StaleUpdating => CacheStatus::Updating,
        CachePhase::Revalidated | CachePhase::RevalidatedNoCache(_) => CacheStatus::Revalidated,
        _ if ctx.cache.found_stale => CacheStatus::Expired,
        _ => CacheStatus::Miss,
    })
}
