//! Attempts over FastCGI: one request at a time on a connection.

mod error_output;
mod relay;
mod upload;

use std::future::poll_fn;
use std::time::Instant;

use self::error_output::ErrorOutput;
use self::relay::Relay;
use self::upload::{OutgoingRequest, Upload};
use super::forward_context::{ForwardContext, follow};
use crate::body::downstream::Downstream;
use crate::engine::Forwarded;
use crate::engine::direct::relay::Relay as _;
use crate::engine::direct::upload_timeouts::UploadTimeouts;
use crate::message::fastcgi::RecordDecoder;
use crate::message::head::Head;
use crate::pipeline::{Originator, Upstream};
use crate::upstream::pool::{self, InUse};

/// State of a request over all its attempts.
pub(super) struct FastCgiAttempts {
    upload: Upload,
}

impl FastCgiAttempts {
    pub(super) fn new(head: &Head) -> Self {
        Self { upload: Upload::new(head) }
    }

    /// Bytes of the request body that arrived.
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
        upload.begin(run.downstream, run.head);
        let params = run.originator.fastcgi_params(run.head);
        let keeps = size > 0 && connection.served + 1 < upstream.keep_alive.requests;
        let (attempt_io, head) = run.attempt_io(upstream);
        let outgoing = OutgoingRequest {
            params: &params,
            keeps,
            timeouts: UploadTimeouts::new(attempt_io.originator, upstream),
        };
        let mut relay = Relay {
            attempt_io,
            upload,
            connection: &mut connection,
            outgoing,
            method: &head.method,
            decoder: RecordDecoder::default(),
            errors: ErrorOutput::new(upstream.address),
            output_ended: false,
            request_ended: false,
            closed: false,
        };
        let next = poll_fn(|cx| relay.poll(cx)).await;
        let ended = Instant::now();
        // Also before another attempt: a response that is not relayed is no fault of its
        // connection.
        if keeps && relay.is_reusable() {
            drop(relay);
            pool::put(connection, upstream, size, run.worker.idle, ended);
        }
        match next {
            None => Some(Forwarded::Relayed(ended)),
            Some(next) => follow(next),
        }
    }
}
