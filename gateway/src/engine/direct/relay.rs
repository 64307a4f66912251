//! One attempt: a request and its response over one connection to an endpoint, both directions at once.
//!
//! Written as polls, because the parts of an attempt wait for one another in ways that no sequence of awaits can
//! say: a response may come before its request is complete, either side may go away at any time, and nobody may
//! be read from faster than the other side takes it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;

use super::download::{Download, Receiving};
use super::upload::{Outgoing, Sending, Upload};
use crate::engine::downstream::Downstream;
use crate::io::alarm::Alarm;
use crate::io::budget::{self, Ticket};
use crate::io::limits::Limits;
use crate::io::scratch;
use crate::message::framing::Framing;
use crate::pipeline::{Answer, Exchange, Failure, FailureKind, Next, Upstream};
use crate::upstream::connection::Connection;

/// One attempt.
pub(super) struct Relay<'r, D> {
    pub(super) downstream: &'r mut D,
    pub(super) alarm: &'r mut Alarm,
    pub(super) exchange: &'r mut Exchange,
    pub(super) upload: &'r mut Upload,
    pub(super) download: &'r mut Download,
    pub(super) connection: &'r mut Connection,
    pub(super) upstream: &'r Upstream,
    pub(super) outgoing: Outgoing<'r>,
    pub(super) limits: Limits,
    /// While it waits for memory.
    pub(super) ticket: Ticket,
    /// The endpoint has been waited for.
    pub(super) waited: bool,
    /// The endpoint has ended its connection in order.
    pub(super) ended: bool,
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum End {
    /// The client has the whole response.
    Whole,
    /// The endpoint has switched protocols, and the client is being told.
    Switched,
    /// The response gives way to this answer.
    Replaced(Answer),
    /// The response is not relayed; there is another attempt.
    Retry,
    /// It failed.
    Failed(Failure),
}

impl<D: Downstream> Relay<'_, D> {
    /// Goes on as far as it can.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if self.upload.is_sending() {
            let Self { upload, downstream, connection, limits, outgoing, .. } = self;
            let polled = upload.poll(cx, *downstream, &mut connection.stream, limits, outgoing);
            downstream.set_stalled(upload.is_stalled());
            if let Poll::Ready(Err(kind)) = polled {
                return Poll::Ready(self.failed(kind));
            }
        }
        if let Poll::Ready(end) = self.poll_response(cx) {
            return Poll::Ready(end.unwrap_or_else(|kind| self.failed(kind)));
        }
        if self.downstream.poll_gone(cx, self.upload.is_sending()).is_ready() {
            return Poll::Ready(self.failed(FailureKind::Client));
        }
        self.limits.poll(cx, self.alarm).map(|kind| self.failed(kind))
    }

    fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<End, FailureKind>> {
        loop {
            ready!(self.downstream.poll_flush(cx, &mut self.limits))?;
            if self.download.state == Receiving::Done {
                return Poll::Ready(Ok(End::Whole));
            }
            ready!(self.poll_room(cx));
            match scratch::read(|buffer| self.poll_read(cx, buffer))? {
                Poll::Ready(Some(end)) => return Poll::Ready(Ok(end)),
                Poll::Ready(None) => {}
                Poll::Pending => {
                    let Download { state, response, .. } = &mut *self.download;
                    if *state != Receiving::Body || !self.downstream.pause(cx, response)? {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Ready when there is memory for what the client may not take.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if budget::has_room() {
            self.limits.room.end();
            return Poll::Ready(());
        }
        self.limits.room.begin(Some(budget::PATIENCE));
        let room = budget::poll_room(cx, &mut self.ticket);
        if room.is_ready() {
            self.limits.room.end();
        }
        room
    }

    /// Reads from the endpoint and passes on what came.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<Result<Option<End>, FailureKind>> {
        let most = self.downstream.portion(budget::portion(buffer.len()));
        let mut buf = ReadBuf::new(&mut buffer[..most]);
        let polled = Pin::new(&mut self.connection.stream).poll_read(cx, &mut buf);
        let Poll::Ready(read) = polled else {
            // While the client sends, an endpoint may keep silent; unless the client waits for it to speak.
            if !self.upload.is_sending() || self.downstream.awaits_continue() || self.download.started {
                // The first wait of an attempt over a pooled connection begins with it.
                let began = self.upstream.began;
                let first = self.connection.reused && !self.download.heard && !self.waited;
                self.waited = true;
                let now = || if first { began.into() } else { Instant::now() };
                self.limits.read.begin_at(now, self.upstream.read_timeout);
            }
            return Poll::Pending;
        };
        self.limits.read.end();
        Poll::Ready(match (read, buf.filled()) {
            (Ok(()), []) => {
                self.ended = true;
                self.end(cx).map(|()| None)
            }
            (Ok(()), bytes) => {
                self.download.heard = true;
                self.receive(cx, bytes)
            }
            (Err(error), _) => {
                // TLS without a goodbye, but TCP with one.
                self.ended = error.kind() == io::ErrorKind::UnexpectedEof;
                Err(FailureKind::Broken)
            }
        })
    }

    /// The endpoint ended its connection, which may be the end of the response.
    fn end(&mut self, cx: &mut Context<'_>) -> Result<(), FailureKind> {
        let download = &mut *self.download;
        if download.state != Receiving::Body || download.response.framing != Framing::Opaque {
            return Err(FailureKind::Broken);
        }
        download.state = Receiving::Done;
        self.downstream.end(cx, &mut download.response, None)
    }

    fn receive(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Result<Option<End>, FailureKind> {
        if self.download.state == Receiving::Body {
            let passed = self.downstream.pass(cx, &mut self.download.response, bytes)?;
            self.download.passed(passed, bytes.len());
            return Ok(None);
        }
        if self.download.partial.is_empty() {
            return self.receive_head(cx, bytes);
        }
        // Nothing becomes complete without the end of a line.
        self.download.partial.extend_from_slice(bytes);
        if !bytes.contains(&b'\n') {
            return Ok(None);
        }
        let bytes = std::mem::take(&mut self.download.partial);
        self.receive_head(cx, &bytes)
    }

    /// Interim heads, the final one, and what is there of its body.
    fn receive_head(&mut self, cx: &mut Context<'_>, mut bytes: &[u8]) -> Result<Option<End>, FailureKind> {
        loop {
            let read = self.download.response.read(bytes, &self.outgoing.head.method);
            let Some(length) = read.map_err(|_| FailureKind::InvalidHead)? else {
                self.download.partial.extend_from_slice(bytes);
                return Ok(None);
            };
            bytes = &bytes[length..];
            if !self.download.response.is_interim() {
                break;
            }
            self.interim(cx)?;
        }
        let switches = self.download.response.switches();
        if switches && !self.outgoing.upgrade {
            // Nobody has asked for that.
            return Err(FailureKind::InvalidHead);
        }
        let status = self.download.response.status;
        match self.exchange.upstream_response(status, self.upload.is_replayable()) {
            Next::Relay => {}
            _ => return Ok(Some(End::Retry)),
        }
        if let Some(answer) = self.exchange.intercept(status, &self.download.response.fields) {
            self.drop_body(bytes);
            return Ok(Some(End::Replaced(answer)));
        }
        let response = &mut self.download.response;
        self.exchange.response(response);
        self.limits.body.end();
        let passed = self.downstream.respond(cx, response, bytes);
        // Of what cannot be read nothing was passed on, so that there can still be an answer.
        self.download.started = !matches!(passed, Err(FailureKind::InvalidHead));
        let passed = passed?;
        self.download.state = Receiving::Body;
        self.download.passed(passed, bytes.len());
        Ok(switches.then_some(End::Switched))
    }

    /// Drops the body of a response that is not relayed. If all of it came with the head, the connection may go on; it
    /// is not worth waiting for more.
    fn drop_body(&mut self, bytes: &[u8]) {
        let response = &mut self.download.response;
        if let Ok(taken) = response.framing.take(bytes)
            && response.framing.is_done()
        {
            self.download.state = Receiving::Done;
            self.download.excess |= taken < bytes.len();
        }
    }

    fn interim(&mut self, cx: &mut Context<'_>) -> Result<(), FailureKind> {
        match self.download.count_interim() {
            true => self.downstream.interim(cx, &mut self.download.response),
            false => Err(FailureKind::InvalidHead),
        }
    }

    fn failed(&self, kind: FailureKind) -> End {
        let response_started = self.download.started;
        let stale = kind == FailureKind::Broken && self.connection.reused && !self.download.heard;
        let replayable = self.upload.is_replayable();
        let sent = kind != FailureKind::Broken || self.download.heard || !self.is_untouched();
        End::Failed(Failure { kind, stale, sent, replayable, response_started })
    }

    /// Whether the endpoint had certainly ended its connection before anything of the request came to it.
    fn is_untouched(&self) -> bool {
        match self.upload.sent() {
            0 => true,
            sent => self.ended && self.connection.has_delivered_none_of(sent),
        }
    }

    /// Whether the endpoint's connection may serve another request: both sides are at the end of a message and
    /// agree about it.
    pub(super) fn is_reusable(&self) -> bool {
        self.download.state == Receiving::Done
            && self.upload.state == Sending::Done
            && self.download.response.keeps_alive
            && !self.download.excess
            && self.download.response.framing != Framing::Opaque
    }
}
