//! One attempt over a connection of HTTP/1.1.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;

use super::upload::{OutgoingRequest, Sending, Upload};
use crate::body::downstream::Downstream;
use crate::engine::direct::attempt_io::{AttemptIo, FailedConnection};
use crate::engine::direct::download::{Download, Receiving};
use crate::engine::direct::relay::{self, SocketRelay};
use crate::io::budget;
use crate::message::framing::Framing;
use crate::pipeline::{FailureKind, Next, Originator};
use crate::upstream::connection::Connection;

/// One attempt.
pub(super) struct Relay<'r, D, O> {
    pub(super) attempt_io: AttemptIo<'r, D, O>,
    pub(super) upload: &'r mut Upload,
    pub(super) connection: &'r mut Connection,
    pub(super) outgoing: OutgoingRequest<'r>,
    /// The attempt has waited for the endpoint before.
    pub(super) waited: bool,
    /// The endpoint has closed its connection in order.
    pub(super) closed: bool,
}

impl<'r, D: Downstream + 'r, O: Originator + 'r> relay::Relay<'r> for Relay<'r, D, O> {
    type Downstream = D;
    type Originator = O;

    fn attempt_io(&mut self) -> &mut AttemptIo<'r, D, O> {
        &mut self.attempt_io
    }

    fn is_sending(&self) -> bool {
        self.upload.is_sending()
    }

    fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FailureKind>> {
        let Self { upload, attempt_io, connection, outgoing, .. } = self;
        let AttemptIo { downstream, deadlines, .. } = attempt_io;
        let polled = upload.poll(cx, *downstream, &mut connection.stream, deadlines, outgoing);
        downstream.set_stalled(upload.is_stalled());
        polled
    }

    fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Next<O::Answer>>, FailureKind>> {
        self.poll_socket(cx)
    }

    fn failed(&mut self, kind: FailureKind) -> Next<O::Answer> {
        let over = FailedConnection {
            connection: &*self.connection,
            closed: self.closed,
            sent: self.upload.sent(),
            replayable: self.upload.is_replayable(),
        };
        self.attempt_io.failed(kind, &over)
    }
}

impl<'r, D: Downstream + 'r, O: Originator + 'r> SocketRelay<'r> for Relay<'r, D, O> {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<Result<Option<Next<O::Answer>>, FailureKind>> {
        let most = self.attempt_io.downstream.portion(budget::portion(buffer.len()));
        let mut buf = ReadBuf::new(&mut buffer[..most]);
        let polled = Pin::new(&mut self.connection.stream).poll_read(cx, &mut buf);
        let Poll::Ready(read) = polled else {
            if self.attempt_io.waits_for_endpoint(self.upload.is_sending()) {
                // The first wait of an attempt over a pooled connection began with the attempt.
                let began = self.attempt_io.upstream.began;
                let first = self.connection.reused && !self.attempt_io.download.heard && !self.waited;
                self.waited = true;
                let now = || if first { began.into() } else { Instant::now() };
                self.attempt_io.deadlines.read.begin_at(now, self.attempt_io.upstream.read_timeout);
            }
            return Poll::Pending;
        };
        self.attempt_io.deadlines.endpoint_sent(self.outgoing.timeouts.client);
        Poll::Ready(match (read, buf.filled()) {
            (Ok(()), []) => {
                self.closed = true;
                self.end(cx).map(|()| None)
            }
            (Ok(()), bytes) => {
                self.attempt_io.download.heard = true;
                self.receive(cx, bytes)
            }
            (Err(_), _) => Err(FailureKind::Broken),
        })
    }

    fn has_switched(&self) -> bool {
        self.attempt_io.download.started && self.attempt_io.download.response.switches()
    }
}

impl<D: Downstream, O: Originator> Relay<'_, D, O> {
    /// The endpoint closed its connection, which may be the end of the response.
    fn end(&mut self, cx: &mut Context<'_>) -> Result<(), FailureKind> {
        let AttemptIo { download, downstream, .. } = &mut self.attempt_io;
        if download.state != Receiving::Body || download.response.framing != Framing::Opaque {
            return Err(FailureKind::Broken);
        }
        download.state = Receiving::Done;
        downstream.end(cx, &mut download.response, None)
    }

    fn receive(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Result<Option<Next<O::Answer>>, FailureKind> {
        if self.attempt_io.download.state == Receiving::Body {
            let passed =
                self.attempt_io.downstream.pass(cx, &mut self.attempt_io.download.response, bytes)?;
            self.attempt_io.download.passed(passed, bytes.len());
            return Ok(None);
        }
        match self.attempt_io.download.extend_head(bytes) {
            Some(bytes) => self.receive_head(cx, &bytes),
            None => Ok(None),
        }
    }

    /// Handles interim heads, the final one, and the start of its body.
    fn receive_head(
        &mut self,
        cx: &mut Context<'_>,
        mut bytes: &[u8],
    ) -> Result<Option<Next<O::Answer>>, FailureKind> {
        loop {
            let OutgoingRequest { head, upgrade, .. } = &self.outgoing;
            let Download { response, heads, partial, .. } = &mut *self.attempt_io.download;
            let Some(length) = heads.read(response, bytes, &head.method, *upgrade)? else {
                partial.extend_from_slice(bytes);
                return Ok(None);
            };
            bytes = &bytes[length..];
            if !self.attempt_io.download.response.is_interim() {
                break;
            }
            self.attempt_io.interim(cx)?;
        }
        self.attempt_io.begin_response(cx, self.upload.is_replayable(), bytes)
    }

    /// Whether the endpoint's connection may serve another request: both messages are complete, and
    /// both sides agree.
    pub(super) fn is_reusable(&self) -> bool {
        self.attempt_io.download.state == Receiving::Done
            && self.upload.state == Sending::Done
            && self.attempt_io.download.response.keeps_alive
            && !self.attempt_io.download.excess
            && self.attempt_io.download.response.framing != Framing::Opaque
    }
}
