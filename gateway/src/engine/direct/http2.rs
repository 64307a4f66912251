//! Attempts over HTTP/2: a stream of a connection that others use as well.

mod relay;
mod upload;

use std::future::poll_fn;
use std::time::Instant;

use h2::Reason;
use http::Version;

use self::relay::{Incoming, Relay};
use self::upload::{Patience, Upload};
use super::attempts::{Run, follow};
use super::connecting::{Room, unless_left};
use crate::body::downstream::Downstream;
use crate::engine::Forwarded;
use crate::message::head::Head;
use crate::message::http2::{Spoken, request, takes_trailers};
use crate::pipeline::{Failure, FailureKind, Upstream};
use crate::upstream::http2;

/// What a request needs over all its attempts.
pub(super) struct Http2 {
    upload: Upload,
    /// The client takes trailers.
    trailers: bool,
    /// With what the endpoint of the last attempt has reset its stream.
    reset: Option<Reason>,
}

impl Http2 {
    pub(super) fn new(head: &Head) -> Self {
        Self { upload: Upload::new(head), trailers: takes_trailers(head), reset: None }
    }

    /// Bytes of the request body that came.
    pub(super) fn received(&self) -> u64 {
        self.upload.received
    }

    /// With what the endpoint of the last attempt has reset its stream.
    pub(super) fn reset(&self) -> Option<Reason> {
        self.reset
    }

    /// One attempt. `None` is another one.
    pub(super) async fn attempt<D: Downstream>(
        &mut self,
        run: &mut Run<'_, D>,
        upstream: &Upstream,
    ) -> Option<Forwarded> {
        let Self { upload, trailers, reset } = self;
        let size = run.pool_size();
        let pooled = if size > 0 { http2::take(upstream) } else { None };
        // What the client sends meanwhile waits.
        run.downstream.set_stalled(pooled.is_none() && !run.downstream.is_spent());
        let place = match pooled {
            Some(place) => place,
            None => {
                let mut room = Room { worker: run.worker, exchange: run.exchange };
                let waited_since = &mut run.waited_since;
                let obtain = http2::obtain(upstream, &mut room, waited_since, size, run.worker.idle);
                match unless_left(run.downstream, obtain).await {
                    Ok(place) => place,
                    Err(kind) => return run.not_connected(kind, upload.is_replayable()).await,
                }
            }
        };
        run.connected(upstream, place.reused);
        *reset = None;
        upload.begin(run.downstream, run.head);
        let spoken =
            Spoken { tls: upstream.protocol.has_tls(), address: upstream.address, trailers: *trailers };
        let Ok((response, stream)) = place.send(request(run.head, spoken), !upload.is_sending()) else {
            // It was about to end.
            let replayable = upload.is_replayable();
            let failure =
                Failure { stale: true, ..Failure::before_connecting(FailureKind::Broken, replayable) };
            return run.failed(failure);
        };
        let (sides, head) = run.sides(upstream);
        let patience =
            Patience { client: sides.exchange.tuning().client_body_timeout, endpoint: upstream.send_timeout };
        let mut relay = Relay {
            sides,
            upload,
            patience,
            stream,
            incoming: Incoming::new(response),
            place: &place,
            method: &head.method,
            keeps_length: head.version != Version::HTTP_2,
            broke: None,
        };
        let next = poll_fn(|cx| relay.poll(cx)).await;
        *reset = relay.broke.and_then(|broke| broke.reset);
        match next {
            None => Some(Forwarded::Relayed(Instant::now())),
            Some(next) => follow(next),
        }
    }
}
