//! A request that is to be forwarded: its attempts, endpoint after endpoint, until one answers or the pipeline has had
//! enough.

use std::mem;

use sluice_config::UpstreamProtocol;
use tokio::task::yield_now;

use super::attempt_io::AttemptIo;
use super::download::Download;
use super::http1::Http1;
use super::http2::Http2;
use crate::body::downstream::Downstream;
use crate::engine::{ForwardCounts, Forwarded};
use crate::io::alarm::Alarm;
use crate::io::budget::WaitTicket;
use crate::io::deadlines::Deadlines;
use crate::message::head::Head;
use crate::pipeline::{Exchange, Failure, FailureKind, Next, Upstream};
use crate::worker::Worker;

/// Carries a request to endpoints.
pub(in crate::engine) async fn forward<D: Downstream>(
    worker: &Worker,
    downstream: &mut D,
    alarm: &mut Alarm,
    exchange: &mut Exchange,
    head: &mut Head,
    counts: &mut ForwardCounts,
) -> Forwarded {
    let mut download = Download::default();
    // All endpoints of a pool speak the same.
    let mut client = match exchange.protocol().is_some_and(UpstreamProtocol::is_http2) {
        false => UpstreamClient::Http1(Http1::new(head)),
        true => UpstreamClient::Http2(Box::new(Http2::new(head))),
    };
    let mut run = ForwardContext {
        worker,
        downstream,
        alarm,
        exchange,
        head,
        download: &mut download,
        waited_since: None,
        changed: false,
    };
    let forwarded = run.attempts(&mut client).await;
    if run.changed
        && let Forwarded::Answer(_) = forwarded
    {
        // Whoever is asked about the answer is told of the request, not of an attempt.
        head.restore();
    }
    counts.status = download.started.then_some(download.response.status);
    counts.upstream_received = download.received;
    (counts.received, counts.reset) = match &client {
        UpstreamClient::Http1(http1) => (http1.received(), None),
        UpstreamClient::Http2(http2) => (http2.received(), http2.reset()),
    };
    forwarded
}

/// The HTTP client for the pool's protocol, with the state it keeps between attempts.
enum UpstreamClient {
    Http1(Http1),
    /// Boxed, because HTTP/1.1 is the common case.
    Http2(Box<Http2>),
}

/// The parts of a request that all its attempts share.
pub(super) struct ForwardContext<'r, D> {
    pub(super) worker: &'r Worker,
    pub(super) downstream: &'r mut D,
    pub(super) alarm: &'r mut Alarm,
    pub(super) exchange: &'r mut Exchange,
    pub(super) head: &'r mut Head,
    pub(super) download: &'r mut Download,
    /// When the request first had to wait for room, in any attempt.
    pub(super) waited_since: Option<tokio::time::Instant>,
    /// The head is as the last attempt sent it.
    changed: bool,
}

impl<D: Downstream> ForwardContext<'_, D> {
    async fn attempts(&mut self, client: &mut UpstreamClient) -> Forwarded {
        loop {
            let upstream = match self.exchange.pick() {
                Ok(upstream) => upstream,
                Err(answer) => return Forwarded::Answer(answer),
            };
            let forwarded = match client {
                UpstreamClient::Http1(http1) => http1.attempt(self, &upstream).await,
                UpstreamClient::Http2(http2) => Box::pin(http2.attempt(self, &upstream)).await,
            };
            if let Some(forwarded) = forwarded {
                return forwarded;
            }
        }
    }

    /// How many connections to endpoints may be idle.
    pub(super) fn pool_size(&self) -> usize {
        self.exchange.settings().upstream_keepalive_connections.min(self.worker.idle)
    }

    /// No connection came about. `None` is another attempt.
    pub(super) async fn not_connected(&mut self, kind: FailureKind, replayable: bool) -> Option<Forwarded> {
        let forwarded = self.failed(Failure::before_connecting(kind, replayable));
        if forwarded.is_none() {
            // A refusal may come without a wait. Others have their turn, and the end of the program its.
            yield_now().await;
        }
        forwarded
    }

    /// The connection of this attempt stands: the head is made ready for the endpoint. Every attempt begins with the head
    /// as it was received.
    pub(super) fn connected(&mut self, upstream: &Upstream, reused: bool) {
        self.exchange.connected(upstream.address, reused);
        match mem::replace(&mut self.changed, true) {
            false => self.head.keep(),
            true => self.head.restore(),
        }
        self.exchange.upstream_request(self.head);
        self.download.begin();
    }

    /// What the relay of this attempt works on, and the head that it sends.
    pub(super) fn attempt_io<'s>(&'s mut self, upstream: &'s Upstream) -> (AttemptIo<'s, D>, &'s Head) {
        let attempt_io = AttemptIo {
            downstream: &mut *self.downstream,
            alarm: &mut *self.alarm,
            exchange: &mut *self.exchange,
            download: &mut *self.download,
            upstream,
            deadlines: Deadlines::default(),
            ticket: WaitTicket::default(),
        };
        (attempt_io, &*self.head)
    }

    /// An attempt failed before anything was sent. `None` is another one.
    pub(super) fn failed(&mut self, failure: Failure) -> Option<Forwarded> {
        follow(self.exchange.failed(failure))
    }
}

/// What the pipeline says to an attempt whose response is not relayed; `None` is another one.
pub(super) fn follow(next: Next) -> Option<Forwarded> {
    match next {
        Next::Retry => None,
        Next::Answer(answer) => Some(Forwarded::Answer(answer)),
        Next::Abort => Some(Forwarded::Aborted { asked: true }),
    }
}
