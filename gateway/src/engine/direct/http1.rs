//! Attempts over HTTP/1.1.

mod relay;
mod upload;

use std::future::poll_fn;
use std::time::Instant;

use http::Version;

use self::relay::Relay;
use self::upload::{OutgoingRequest, Upload};
use super::forward_context::{ForwardContext, follow};
use crate::body::downstream::Downstream;
use crate::engine::Forwarded;
use crate::engine::direct::relay::{Relay as _, SocketRelay as _};
use crate::engine::direct::upload_timeouts::UploadTimeouts;
use crate::engine::tunnel::TunnelEndpoint;
use crate::message::head::Head;
use crate::message::request;
use crate::pipeline::{Next, Originator, Upstream};
use crate::upstream::pool::{self, InUse};

/// State of a request over all its attempts.
pub(super) struct Http1Attempts {
    upload: Upload,
    asks_for_upgrade: bool,
}

impl Http1Attempts {
    pub(super) fn new(head: &Head) -> Self {
        Self { upload: Upload::new(), asks_for_upgrade: request::asks_for_upgrade(head) }
    }

    /// Bytes of the request body that arrived, without transfer coding.
    pub(super) fn received(&self) -> u64 {
        self.upload.received
    }

    /// Makes an attempt. `None` is another attempt.
    pub(super) async fn attempt<D: Downstream, O: Originator>(
        &mut self,
        run: &mut ForwardContext<'_, D, O>,
        upstream: &Upstream,
    ) -> Option<Forwarded<O::Answer>> {
        let upload = &mut self.upload;
        let size = run.pool_size();
        let _in_use = InUse::new();
        let mut connection = match run.connection(upstream, upload.is_replayable()).await {
            Ok(connection) => connection,
            Err(forwarded) => return forwarded,
        };
        run.connected(upstream, connection.reused);
        upload.begin(run.downstream);
        let version = if run.originator.speaks_http_1_0() { Version::HTTP_10 } else { Version::HTTP_11 };
        let (attempt_io, head) = run.attempt_io(upstream);
        let outgoing = OutgoingRequest {
            head,
            version,
            last: size == 0 || connection.served + 1 >= upstream.keep_alive.requests,
            upgrade: self.asks_for_upgrade && request::asks_for_upgrade(head),
            timeouts: UploadTimeouts::new(attempt_io.originator, upstream),
        };
        let mut relay =
            Relay { attempt_io, upload, connection: &mut connection, outgoing, waited: false, closed: false };
        let next = poll_fn(|cx| relay.poll(cx)).await;
        let ended = Instant::now();
        let (is_reusable, has_switched) = (relay.is_reusable(), relay.has_switched());
        match next {
            None if has_switched => {
                let Upstream { read_timeout, send_timeout, .. } = *upstream;
                let up = self.upload.take_flow();
                return Some(Forwarded::Switched(TunnelEndpoint {
                    connection,
                    read_timeout,
                    send_timeout,
                    up,
                }));
            }
            // Also before another attempt: a response that is not relayed is no fault of its
            // connection.
            None | Some(Next::Answer(_) | Next::Abort | Next::Retry) => {}
        }
        if is_reusable {
            pool::put(connection, upstream, size, run.worker.idle, ended);
        }
        match next {
            None => Some(Forwarded::Relayed(ended)),
            Some(next) => follow(next),
        }
    }
}
