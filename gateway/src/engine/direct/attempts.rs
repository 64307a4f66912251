//! The attempts of a request, at one endpoint after another, until a response is relayed or the
//! originator ends them.

use std::mem;

use sluice_config::UpstreamProtocol;
use tokio::task::yield_now;

use super::attempt_io::AttemptIo;
use super::download::Download;
use super::fastcgi::FastCgiAttempts;
use super::http1::Http1Attempts;
use super::http2::Http2Attempts;
use crate::body::downstream::Downstream;
use crate::engine::watch::unless_left;
use crate::engine::{ForwardCounts, Forwarded, cut_off};
use crate::io::alarm::Alarm;
use crate::io::budget::WaitTicket;
use crate::io::deadlines::Deadlines;
use crate::message::head::Head;
use crate::pipeline::{Failure, FailureKind, Next, Originator, Upstream};
use crate::upstream::connect::{self, ConnectionGate};
use crate::upstream::connection::Connection;
use crate::upstream::pool;
use crate::worker::Worker;

/// Forwards a request.
pub(in crate::engine) async fn forward<D: Downstream, O: Originator>(
    worker: &Worker,
    downstream: &mut D,
    alarm: &mut Alarm,
    originator: &mut O,
    head: &mut Head,
    counts: &mut ForwardCounts,
) -> Forwarded<O::Answer> {
    let mut download = Download::default();
    // All endpoints of a pool use the same protocol.
    let client = match originator.protocol() {
        Some(UpstreamProtocol::FastCgi) => UpstreamClient::FastCgi(Box::new(FastCgiAttempts::new(head))),
        Some(protocol) if protocol.is_http2() => UpstreamClient::Http2(Box::new(Http2Attempts::new(head))),
        _ => UpstreamClient::Http1(Http1Attempts::new(head)),
    };
    let context = ForwardContext {
        worker,
        downstream,
        alarm,
        originator,
        head,
        download: &mut download,
        waited_since: None,
        changed: false,
    };
    let mut attempts = Attempts { context, client, is_over: false };
    let forwarded = attempts.run().await;
    attempts.is_over = true;
    *counts = attempts.counts();
    if attempts.context.changed
        && let Forwarded::Answer(_) = forwarded
    {
        // The error backend gets the fields of the request, not those of an attempt.
        attempts.context.head.restore();
    }
    forwarded
}

/// All attempts of a request. If they are dropped before the end, so is the client.
struct Attempts<'r, D: Downstream, O: Originator> {
    context: ForwardContext<'r, D, O>,
    client: UpstreamClient,
    is_over: bool,
}

/// The client for the pool's protocol, with the state it keeps between attempts.
enum UpstreamClient {
    Http1(Http1Attempts),
    /// Boxed, because HTTP/1.1 is the common case.
    Http2(Box<Http2Attempts>),
    FastCgi(Box<FastCgiAttempts>),
}

/// The parts of a request that all its attempts share.
pub(super) struct ForwardContext<'r, D, O> {
    pub(super) worker: &'r Worker,
    pub(super) downstream: &'r mut D,
    pub(super) alarm: &'r mut Alarm,
    pub(super) originator: &'r mut O,
    pub(super) head: &'r mut Head,
    pub(super) download: &'r mut Download,
    /// When the request first had to wait until a connection is admitted, in any attempt.
    pub(super) waited_since: Option<tokio::time::Instant>,
    /// The head was changed for an attempt.
    changed: bool,
}

impl<D: Downstream, O: Originator> Attempts<'_, D, O> {
    async fn run(&mut self) -> Forwarded<O::Answer> {
        let Self { context, client, .. } = self;
        loop {
            let upstream = match context.originator.pick() {
                Ok(upstream) => upstream,
                Err(answer) => return Forwarded::Answer(answer),
            };
            let forwarded = match client {
                UpstreamClient::Http1(http1) => http1.attempt(context, &upstream).await,
                UpstreamClient::Http2(http2) => Box::pin(http2.attempt(context, &upstream)).await,
                UpstreamClient::FastCgi(fastcgi) => Box::pin(fastcgi.attempt(context, &upstream)).await,
            };
            if let Some(forwarded) = forwarded {
                return forwarded;
            }
        }
    }

    fn counts(&self) -> ForwardCounts {
        let download = &self.context.download;
        let (received, reset) = match &self.client {
            UpstreamClient::Http1(http1) => (http1.received(), None),
            UpstreamClient::Http2(http2) => (http2.received(), http2.reset()),
            UpstreamClient::FastCgi(fastcgi) => (fastcgi.received(), None),
        };
        let status = download.started.then_some(download.response.status);
        ForwardCounts { status, received, upstream_received: download.received, reset }
    }
}

impl<D: Downstream, O: Originator> Drop for Attempts<'_, D, O> {
    fn drop(&mut self) {
        if !self.is_over && self.context.download.started {
            let outcome = cut_off::outcome(&self.counts(), self.context.downstream);
            self.context.originator.cut_off(outcome);
        }
    }
}

impl<D: Downstream, O: Originator> ForwardContext<'_, D, O> {
    /// Limit of idle connections to endpoints.
    pub(super) fn pool_size(&self) -> usize {
        self.originator.settings().upstream_keepalive_connections.min(self.worker.idle)
    }

    /// Returns a connection that serves one request at a time: a pooled one, or a new one. The
    /// error is what follows if there is none; `None` in it is another attempt.
    pub(super) async fn connection(
        &mut self,
        upstream: &Upstream,
        replayable: bool,
    ) -> Result<Connection, Option<Forwarded<O::Answer>>> {
        let pooled = pool::take(upstream);
        // Nothing is read from the client meanwhile.
        self.downstream.set_stalled(pooled.is_none() && !self.downstream.is_spent());
        if let Some(connection) = pooled {
            return Ok(connection);
        }
        let obtained = {
            let mut gate = gate(self.worker, self.originator);
            // Boxed, because it is rare and large.
            let mut obtain = Box::pin(connect::obtain(upstream, &mut gate, &mut self.waited_since));
            unless_left(self.downstream, obtain.as_mut()).await
        };
        match obtained.unwrap_or(Err(FailureKind::Client)) {
            Ok(connection) => Ok(connection),
            Err(kind) => Err(self.not_connected(kind, replayable).await),
        }
    }

    /// No connection was established. `None` is another attempt.
    pub(super) async fn not_connected(
        &mut self,
        kind: FailureKind,
        replayable: bool,
    ) -> Option<Forwarded<O::Answer>> {
        let forwarded = self.failed(Failure::before_connecting(kind, replayable));
        if forwarded.is_none() {
            // A refusal may arrive without a wait. Other tasks get their turn, and so does the
            // shutdown.
            yield_now().await;
        }
        forwarded
    }

    /// The attempt has a connection: prepares the head for the endpoint. Every attempt begins with
    /// the head as it was received.
    pub(super) fn connected(&mut self, upstream: &Upstream, reused: bool) {
        self.originator.call().connected(upstream.address, reused);
        match mem::replace(&mut self.changed, true) {
            false => self.head.keep(),
            true => self.head.restore(),
        }
        self.originator.upstream_request(self.head);
        self.download.begin();
    }

    /// The state that the relay of this attempt needs, and the head that it sends.
    pub(super) fn attempt_io<'s>(&'s mut self, upstream: &'s Upstream) -> (AttemptIo<'s, D, O>, &'s Head) {
        let attempt_io = AttemptIo {
            downstream: &mut *self.downstream,
            alarm: &mut *self.alarm,
            originator: &mut *self.originator,
            download: &mut *self.download,
            upstream,
            deadlines: Deadlines::default(),
            ticket: WaitTicket::default(),
        };
        (attempt_io, &*self.head)
    }

    /// An attempt failed before anything was sent. `None` is another attempt.
    pub(super) fn failed(&mut self, failure: Failure) -> Option<Forwarded<O::Answer>> {
        follow(self.originator.failed(failure))
    }
}

/// Admission of a new connection for the current attempt.
pub(super) fn gate<'g>(worker: &'g Worker, originator: &'g mut impl Originator) -> ConnectionGate<'g> {
    let may_wait = originator.may_wait();
    ConnectionGate { in_flight: originator.call().in_flight(), clients: worker.drain.shared(), may_wait }
}

/// The outcome of an attempt whose response is not relayed; `None` is another attempt.
pub(super) fn follow<A>(next: Next<A>) -> Option<Forwarded<A>> {
    match next {
        Next::Retry => None,
        Next::Answer(answer) => Some(Forwarded::Answer(answer)),
        Next::Abort => Some(Forwarded::Aborted { asked: true }),
    }
}
