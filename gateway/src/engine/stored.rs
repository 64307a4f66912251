//! Sends a stored response that is fresh and in memory.
//!
//! It is the common case of a rule with a cache, and involves no endpoint. All other cases go
//! through Pingora's proxy: a response that is not stored, stale, or in a file, and ranges.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use super::cut_off::CutOff;
use super::{ForwardCounts, Forwarded};
use crate::body::downstream::Downstream;
use crate::cache::{self, CacheStatus, FreshResponse};
use crate::io::alarm::Alarm;
use crate::io::budget::{self, WaitTicket};
use crate::io::deadlines::Deadlines;
use crate::message::head::Head;
use crate::pipeline::{CachedRequest, Exchange, Failure, FailureKind, Next, Originator};

/// Maximum number of bytes of a body that are passed on at a time.
const PIECE: usize = 64 * 1024;

/// Returns the response to a request, if it can be sent from here.
pub(super) fn find(cached: &CachedRequest, exchange: &Exchange, head: &mut Head) -> Option<FreshResponse> {
    cached.store.fresh(&cached.key, head, |response, head| {
        head.keep();
        exchange.upstream_request(head);
        let variance = cache::variance(response, || &head.fields);
        head.restore();
        variance
    })
}

/// Sends a response to the client.
pub(super) async fn send<D: Downstream>(
    mut response: FreshResponse,
    downstream: &mut D,
    alarm: &mut Alarm,
    exchange: &mut Exchange,
    counts: &mut ForwardCounts,
) -> Forwarded {
    exchange.set_cache_status(CacheStatus::Hit);
    exchange.response(&mut response.head);
    let length = response.rest.len();
    let mut sending = Sending {
        client: CutOff { exchange, downstream, status: None },
        alarm,
        response,
        deadlines: Deadlines::default(),
        ticket: WaitTicket::default(),
    };
    let sent = poll_fn(|cx| sending.poll(cx)).await;
    let Sending { response, mut client, .. } = sending;
    let status = client.status.take();
    if status.is_some() {
        counts.status = status;
        counts.upstream_received = (length - response.rest.len()) as u64;
    }
    let Err(kind) = sent else { return Forwarded::Relayed(Instant::now()) };
    match client.exchange.failed(Failure::before_connecting(kind, false)) {
        Next::Answer(answer) if kind.permits_answer(status.is_some()) => Forwarded::Answer(answer),
        _ => Forwarded::Aborted { asked: true },
    }
}

/// A response on its way to the client.
struct Sending<'s, D: Downstream> {
    /// Has a status once the head was passed on.
    client: CutOff<'s, D>,
    alarm: &'s mut Alarm,
    response: FreshResponse,
    deadlines: Deadlines,
    /// Held while the response waits for memory.
    ticket: WaitTicket,
}

impl<D: Downstream> Sending<'_, D> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FailureKind>> {
        if let Poll::Ready(sent) = self.poll_send(cx) {
            return Poll::Ready(sent);
        }
        let uploading = !self.client.downstream.is_spent();
        self.client.downstream.poll_over(cx, uploading, &mut self.deadlines, self.alarm).map(Err)
    }

    /// Passes on as much as the client accepts. Ready when it has everything.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FailureKind>> {
        let Self { client, response, deadlines, ticket, .. } = self;
        let CutOff { downstream, status, .. } = client;
        let FreshResponse { head, rest, .. } = response;
        loop {
            ready!(downstream.poll_accept(cx, deadlines))?;
            if status.is_some() && rest.is_empty() {
                // A body that is shorter than its head states leaves the client waiting for the
                // rest, so the connection ends.
                let is_whole = head.framing.is_done();
                return Poll::Ready(is_whole.then_some(()).ok_or(FailureKind::Broken));
            }
            // What the client does not accept is copied.
            ready!(deadlines.poll_room_to_respond(cx, ticket));
            let piece = rest.split_to(downstream.portion(budget::portion(rest.len().min(PIECE))));
            match status {
                Some(_) => downstream.pass(cx, head, &piece)?,
                None => downstream.respond(cx, head, &piece)?,
            };
            *status = Some(head.status);
        }
    }
}
