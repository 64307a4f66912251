//! The attempts of a request, at one endpoint after another, until a response is relayed or the
//! originator ends them.

use sluice_config::UpstreamProtocol;

use super::download::Download;
use super::fastcgi::FastCgiAttempts;
use super::forward_context::ForwardContext;
use super::http1::Http1Attempts;
use super::http2::Http2Attempts;
use crate::body::downstream::Downstream;
use crate::engine::{ForwardCounts, Forwarded, cut_off};
use crate::io::alarm::Alarm;
use crate::message::head::Head;
use crate::pipeline::Originator;
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
