//! Attempts over HTTP/2: a stream of a connection that other requests share.

mod relay;
mod upload;

use std::future::poll_fn;
use std::pin::pin;
use std::time::Instant;

use h2::Reason;
use http::Version;

use self::relay::{Incoming, Relay};
use self::upload::Upload;
use super::forward_context::{ForwardContext, follow, gate};
use crate::body::downstream::Downstream;
use crate::engine::Forwarded;
use crate::engine::direct::relay::Relay as _;
use crate::engine::direct::upload_timeouts::UploadTimeouts;
use crate::engine::watch::unless_left;
use crate::message::head::Head;
use crate::message::http2::{Http2Target, request, takes_trailers};
use crate::pipeline::{Failure, FailureKind, Originator, Upstream};
use crate::upstream::{http2, obtain_http2};

/// State of a request over all its attempts.
pub(super) struct Http2Attempts {
    upload: Upload,
    /// The client accepts trailers.
    trailers: bool,
    /// The error code with which the endpoint of the last attempt reset its stream.
    reset: Option<Reason>,
}

impl Http2Attempts {
    pub(super) fn new(head: &Head) -> Self {
        Self { upload: Upload::new(head), trailers: takes_trailers(head), reset: None }
    }

    /// Bytes of the request body that arrived.
    pub(super) fn received(&self) -> u64 {
        self.upload.received
    }

    /// The error code with which the endpoint of the last attempt reset its stream.
    pub(super) fn reset(&self) -> Option<Reason> {
        self.reset
    }

    /// Makes an attempt. `None` is another attempt.
    pub(super) async fn attempt<D: Downstream, O: Originator>(
        &mut self,
        run: &mut ForwardContext<'_, D, O>,
        upstream: &Upstream,
    ) -> Option<Forwarded<O::Answer>> {
        let Self { upload, trailers, reset } = self;
        let size = run.pool_size();
        let pooled = if size > 0 { http2::take(upstream) } else { None };
        // Nothing is read from the client meanwhile.
        run.downstream.set_stalled(pooled.is_none() && !run.downstream.is_spent());
        let stream_permit = match pooled {
            Some(stream_permit) => stream_permit,
            None => {
                let obtained = {
                    let (mut gate, idle) = (gate(run.worker, run.originator), run.worker.idle);
                    let waited_since = &mut run.waited_since;
                    let obtain = pin!(obtain_http2::obtain(upstream, &mut gate, waited_since, size, idle));
                    unless_left(run.downstream, obtain).await
                };
                match obtained.unwrap_or(Err(FailureKind::Client)) {
                    Ok(stream_permit) => stream_permit,
                    Err(kind) => return run.not_connected(kind, upload.is_replayable()).await,
                }
            }
        };
        run.connected(upstream, stream_permit.reused);
        *reset = None;
        upload.begin(run.downstream, run.head);
        let target =
            Http2Target { tls: upstream.protocol.has_tls(), address: upstream.address, trailers: *trailers };
        let Ok((response, stream)) = stream_permit.send(request(run.head, target), !upload.is_sending())
        else {
            // The connection was about to close.
            let replayable = upload.is_replayable();
            let failure =
                Failure { stale: true, ..Failure::before_connecting(FailureKind::Broken, replayable) };
            return run.failed(failure);
        };
        let (attempt_io, head) = run.attempt_io(upstream);
        let timeouts = UploadTimeouts::new(attempt_io.originator, upstream);
        let mut relay = Relay {
            attempt_io,
            upload,
            timeouts,
            stream,
            incoming: Incoming::new(response),
            stream_permit: &stream_permit,
            method: &head.method,
            keeps_length: head.version != Version::HTTP_2,
            stream_error: None,
            signs_of_life: stream_permit.signs_of_life(),
        };
        let next = poll_fn(|cx| relay.poll(cx)).await;
        if relay.is_cancelled() {
            stream_permit.cancelled();
        }
        *reset = relay.stream_error.and_then(|stream_error| stream_error.reset);
        match next {
            None => Some(Forwarded::Relayed(Instant::now())),
            Some(next) => follow(next),
        }
    }
}
