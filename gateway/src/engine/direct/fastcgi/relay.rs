//! One attempt over a FastCGI connection.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::Method;
use tokio::io::{AsyncRead, ReadBuf};

use super::error_output::ErrorOutput;
use super::upload::{OutgoingRequest, Upload};
use crate::body::downstream::Downstream;
use crate::engine::direct::attempt_io::{AttemptIo, FailedConnection};
use crate::engine::direct::download::Receiving;
use crate::engine::direct::relay::{self, SocketRelay};
use crate::io::budget;
use crate::message::fastcgi::{RecordDecoder, read_response};
use crate::message::framing::Framing;
use crate::pipeline::{FailureKind, Next, Originator};
use crate::upstream::connection::Connection;

/// One attempt.
pub(super) struct Relay<'r, D, O> {
    pub(super) attempt_io: AttemptIo<'r, D, O>,
    pub(super) upload: &'r mut Upload,
    pub(super) connection: &'r mut Connection,
    pub(super) outgoing: OutgoingRequest<'r>,
    pub(super) method: &'r Method,
    pub(super) decoder: RecordDecoder,
    pub(super) errors: ErrorOutput,
    /// The endpoint has ended its output.
    pub(super) output_ended: bool,
    /// The endpoint has ended the request.
    pub(super) request_ended: bool,
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
        let Poll::Ready(read) = Pin::new(&mut self.connection.stream).poll_read(cx, &mut buf) else {
            if self.attempt_io.waits_for_endpoint(self.upload.is_sending()) {
                self.attempt_io.deadlines.read.begin(self.attempt_io.upstream.read_timeout);
            }
            return Poll::Pending;
        };
        self.attempt_io.deadlines.endpoint_sent(self.outgoing.timeouts.client);
        let length = buf.filled().len();
        Poll::Ready(match (read, length) {
            (Ok(()), 0) => {
                self.closed = true;
                // Programs that end their output may omit the end of the request, as with nginx.
                if self.output_ended { self.end(cx).map(|()| None) } else { Err(FailureKind::Broken) }
            }
            (Ok(()), _) => self.receive(cx, &mut buffer[..length]),
            (Err(_), _) => Err(FailureKind::Broken),
        })
    }
}

impl<D: Downstream, O: Originator> Relay<'_, D, O> {
    /// Handles records.
    fn receive(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Result<Option<Next<O::Answer>>, FailureKind> {
        self.attempt_io.download.heard = true;
        let decoded = self.decoder.decode(bytes, |text| self.errors.push(text));
        let decoded = decoded.map_err(|_| FailureKind::InvalidHead)?;
        self.output_ended |= decoded.output_ended;
        self.request_ended |= decoded.ended;
        self.attempt_io.download.excess |= decoded.excess;
        if decoded.output > 0
            && let Some(next) = self.output(cx, &bytes[..decoded.output])?
        {
            return Ok(Some(next));
        }
        if decoded.ended {
            self.end(cx)?;
        }
        Ok(None)
    }

    /// Handles a part of the response.
    fn output(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Result<Option<Next<O::Answer>>, FailureKind> {
        let AttemptIo { download, downstream, .. } = &mut self.attempt_io;
        match download.state {
            Receiving::Head => {}
            Receiving::Body => {
                let passed = downstream.pass(cx, &mut download.response, bytes)?;
                download.passed(passed, bytes.len());
                return Ok(None);
            }
            Receiving::Done => {
                download.excess = true;
                return Ok(None);
            }
        }
        match download.extend_head(bytes) {
            Some(bytes) => self.output_head(cx, &bytes),
            None => Ok(None),
        }
    }

    /// Handles the head and the start of the body.
    fn output_head(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Result<Option<Next<O::Answer>>, FailureKind> {
        let download = &mut *self.attempt_io.download;
        let read = read_response(bytes, self.method).map_err(|_| FailureKind::InvalidHead)?;
        let Some((response, length)) = read else {
            download.partial.extend_from_slice(bytes);
            return Ok(None);
        };
        download.response = response;
        self.attempt_io.begin_response(cx, self.upload.is_replayable(), &bytes[length..])
    }

    /// The output is complete.
    fn end(&mut self, cx: &mut Context<'_>) -> Result<(), FailureKind> {
        let AttemptIo { download, downstream, .. } = &mut self.attempt_io;
        match download.state {
            Receiving::Done => Ok(()),
            Receiving::Body if download.response.framing == Framing::Opaque => {
                download.state = Receiving::Done;
                downstream.end(cx, &mut download.response, None)
            }
            // No head, or a body that is shorter than its length.
            Receiving::Head | Receiving::Body => Err(FailureKind::Broken),
        }
    }

    /// Whether the connection may serve another request: both messages are complete.
    pub(super) fn is_reusable(&self) -> bool {
        self.request_ended && self.upload.is_done() && !self.attempt_io.download.excess && !self.closed
    }
}
