//! Runs Pingora's proxy for one request.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};
use std::time::Instant;

use pingora_core::apps::HttpServerApp;
use pingora_core::protocols::http::ServerSession;

use super::engine::{engine, never};
use super::session::DownstreamSession;
use super::shared_request::{Handle, SharedRequest, lock};
use crate::body::downstream::Downstream;
use crate::engine::watch::Watch;
use crate::engine::{ForwardCounts, Forwarded, cut_off};
use crate::io::alarm::Alarm;
use crate::io::budget::WaitTicket;
use crate::io::deadlines::Deadlines;
use crate::message::head::Head;
use crate::pipeline::{CachedRequest, Exchange, FailureKind};
use crate::worker::Worker;

/// The state that Pingora and the engine share. If it is dropped before the end of the request, so
/// is the client.
struct Shared<D: Downstream> {
    handle: Handle,
    side: Arc<Mutex<Box<D>>>,
    is_over: bool,
}

impl<D: Downstream> Drop for Shared<D> {
    fn drop(&mut self) {
        if !self.is_over {
            let SharedRequest { exchange, counts, .. } = &mut *self.handle.get();
            cut_off::end(exchange, counts, &**lock(&self.side));
        }
    }
}

/// Runs the engine; returns the client side, the exchange and the outcome. With `cached`, the
/// response may be a stored one, or be stored.
pub(in crate::engine) async fn forward<D: Downstream + Send + Sync + 'static>(
    worker: &Worker,
    downstream: Box<D>,
    exchange: Box<Exchange>,
    head: &Head,
    counts: &mut ForwardCounts,
    cached: Option<CachedRequest>,
) -> (Box<D>, Box<Exchange>, Forwarded) {
    let handle = Handle::new(SharedRequest::new(exchange, cached));
    let side = Arc::new(Mutex::new(downstream));
    let mut shared = Shared { handle: handle.clone(), side: side.clone(), is_over: false };
    {
        let session = DownstreamSession::new(side.clone(), handle.clone(), head, worker);
        let (engine, never) = (engine(worker), never());
        let mut run = pin!(engine.process_new_http(ServerSession::new_custom(Box::new(session)), &never));
        let (mut watch, mut ticket) = (Watch::default(), WaitTicket::default());
        let (mut deadlines, mut alarm) = (Deadlines::default(), Alarm::default());
        poll_fn(|cx| {
            // When polled, Pingora may read several pieces of a response before it relays the
            // first. It is therefore polled only if memory is available, or reserved already.
            if handle.get().read_ahead.is_empty()
                && deadlines.poll_room_to_respond(cx, &mut ticket).is_pending()
            {
                let failed = match watch.poll(cx, &mut **lock(&side)) {
                    Poll::Ready(()) => FailureKind::Client,
                    Poll::Pending => ready!(deadlines.poll(cx, &mut alarm)),
                };
                handle.get().fail(failed);
                return Poll::Ready(());
            }
            if run.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let mut downstream = lock(&side);
            let mut shared = handle.get();
            // Pingora detects a closed client only while it waits for nothing else.
            let listening = mem::take(&mut shared.listening);
            let stalled = !listening && !downstream.is_spent();
            downstream.set_stalled(stalled);
            if listening || watch.poll(cx, &mut **downstream).is_pending() {
                return Poll::Pending;
            }
            shared.fail(FailureKind::Client);
            Poll::Ready(())
        })
        .await;
        // Dropping the future drops everything that Pingora holds of the request.
    }
    shared.is_over = true;
    drop(shared);
    let downstream =
        Arc::into_inner(side).map(|side| side.into_inner().unwrap_or_else(PoisonError::into_inner));
    let (Some(downstream), Some(shared)) = (downstream, handle.into_inner()) else {
        unreachable!("Pingora keeps nothing of a session whose future is dropped")
    };
    let SharedRequest { exchange, counts: counted, answer, failed, started, ended, .. } = shared;
    *counts = counted;
    let can_answer = failed.map_or(!started, |kind| kind.permits_answer(started));
    let forwarded = match answer {
        _ if ended => Forwarded::Relayed(Instant::now()),
        Some(answer) if can_answer => Forwarded::Answer(answer),
        _ => Forwarded::Aborted { asked: true },
    };
    (downstream, exchange, forwarded)
}
