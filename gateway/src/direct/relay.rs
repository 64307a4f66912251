//! One try: a request and its response over one connection to an endpoint, both directions at once.
//!
//! Written as polls, because the parts of a try wait for one another in ways that no sequence of awaits can
//! say: a response may come before its request is complete, either side may go away at any time, and nobody may
//! be read from faster than the other side takes it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::StatusCode;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;

use super::alarm::Alarm;
use super::download::{Download, Receiving};
use super::limits::Limits;
use super::scratch;
use super::upload::{Outgoing, Sending, Upload};
use super::upstream::Connection;
use crate::connection::framing::Framing;
use crate::connection::wire::Wire;
use crate::drain::LocalDrain;
use crate::pipeline::{Exchange, Failure, FailureKind, Next, Upstream};

/// Octets of the next requests that are read while this one is under way.
const AHEAD: usize = 64 * 1024;

/// One try.
pub(super) struct Relay<'r> {
    pub(super) wire: &'r mut Wire,
    pub(super) alarm: &'r mut Alarm,
    pub(super) drain: &'r LocalDrain,
    pub(super) exchange: &'r mut Exchange,
    pub(super) upload: &'r mut Upload,
    pub(super) download: &'r mut Download,
    pub(super) connection: &'r mut Connection,
    pub(super) upstream: &'r Upstream,
    pub(super) client: Client,
    pub(super) outgoing: Outgoing<'r>,
    pub(super) limits: Limits,
    /// The endpoint has been waited for.
    pub(super) waited: bool,
}

/// What decides about the client's connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    pub(super) http_1_0: bool,
    /// Whether it goes on after this response, if nothing else speaks against it.
    pub(super) keep: bool,
}

/// How a try ended.
#[derive(Debug)]
pub(super) enum End {
    /// The client has the whole response.
    Whole,
    /// The response is not relayed; there is another try.
    Retry,
    /// It failed.
    Failed(Failure),
}

impl Relay<'_> {
    /// Goes on as far as it can.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if self.upload.is_sending() {
            let Self { upload, wire, connection, limits, outgoing, .. } = self;
            if let Poll::Ready(Err(kind)) = upload.poll(cx, wire, &mut connection.stream, limits, outgoing) {
                return Poll::Ready(self.failed(kind));
            }
        }
        if let Poll::Ready(end) = self.poll_response(cx) {
            return Poll::Ready(end.unwrap_or_else(|kind| self.failed(kind)));
        }
        if !self.upload.is_sending() && self.poll_gone(cx).is_ready() {
            return Poll::Ready(self.failed(FailureKind::Client));
        }
        self.limits.poll(cx, self.alarm).map(|kind| self.failed(kind))
    }

    fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<End, FailureKind>> {
        loop {
            let to = &mut self.wire.transport;
            ready!(self.download.poll_flush(cx, to, &mut self.limits)).map_err(gone)?;
            if self.download.state == Receiving::Done {
                return Poll::Ready(Ok(End::Whole));
            }
            if let Some(end) = ready!(scratch::read(|buffer| self.poll_read(cx, buffer)))? {
                return Poll::Ready(Ok(end));
            }
        }
    }

    /// Reads from the endpoint and passes on what came.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<Result<Option<End>, FailureKind>> {
        let mut buf = ReadBuf::new(buffer);
        let read = Pin::new(&mut self.connection.stream).poll_read(cx, &mut buf);
        if read.is_pending() {
            // While the client sends, an endpoint may keep silent; unless the client waits for it to speak.
            if !self.upload.is_sending() || self.upload.awaits_continue || self.download.started {
                // The first wait of a try over a pooled connection begins with it.
                let began = self.upstream.began;
                let first = self.connection.reused && !self.download.heard && !self.waited;
                self.waited = true;
                let now = || if first { began.into() } else { Instant::now() };
                self.limits.read.begin_at(now, self.upstream.read_timeout);
            }
            return Poll::Pending;
        }
        self.limits.read.end();
        Poll::Ready(match (read, buf.filled()) {
            (Poll::Ready(Ok(())), []) => self.ended(cx).map(|()| None),
            (Poll::Ready(Ok(())), octets) => {
                self.download.heard = true;
                self.receive(cx, octets)
            }
            _ => Err(FailureKind::Broken),
        })
    }

    fn ended(&mut self, cx: &mut Context<'_>) -> Result<(), FailureKind> {
        match self.download.end(cx, &mut self.wire.transport) {
            Some(written) => written.map_err(gone),
            None => Err(FailureKind::Broken),
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>, octets: &[u8]) -> Result<Option<End>, FailureKind> {
        if self.download.state == Receiving::Body {
            return scratch::write(|out| self.pass(cx, out, octets)).map(|()| None);
        }
        if self.download.partial.is_empty() {
            return self.receive_head(cx, octets);
        }
        // Nothing becomes complete without the end of a line.
        self.download.partial.extend_from_slice(octets);
        if !octets.contains(&b'\n') {
            return Ok(None);
        }
        let octets = std::mem::take(&mut self.download.partial);
        self.receive_head(cx, &octets)
    }

    /// Interim heads, the final one, and what is there of its body.
    fn receive_head(&mut self, cx: &mut Context<'_>, mut octets: &[u8]) -> Result<Option<End>, FailureKind> {
        loop {
            let read = self.download.response.read(octets, &self.outgoing.head.method);
            let Some(length) = read.map_err(|_| FailureKind::InvalidHead)? else {
                self.download.partial.extend_from_slice(octets);
                return Ok(None);
            };
            octets = &octets[length..];
            if !self.download.response.is_interim() {
                break;
            }
            self.interim(cx)?;
        }
        let status = self.download.response.status;
        match self.exchange.upstream_response(status, self.upload.is_replayable()) {
            Next::Relay => {}
            _ => return Ok(Some(End::Retry)),
        }
        let response = &mut self.download.response;
        self.exchange.response(status, &mut response.fields);
        response.deliver(self.client.http_1_0);
        let ends_here = response.delivery == super::response::Delivery::UntilClose;
        self.client.keep &= !ends_here && !self.drain.is_draining() && self.upload.can_drain();
        self.download.state = Receiving::Body;
        self.download.started = true;
        self.limits.body.end();
        scratch::write(|out| {
            self.download.response.write(out, self.client.keep);
            self.pass(cx, out, octets)
        })
        .map(|()| None)
    }

    /// `100 Continue` goes to a client that waits for it, others to every client that knows of them.
    fn interim(&mut self, cx: &mut Context<'_>) -> Result<(), FailureKind> {
        let status = self.download.response.status;
        if status == StatusCode::SWITCHING_PROTOCOLS || !self.download.count_interim() {
            return Err(FailureKind::InvalidHead);
        }
        let wanted = status != StatusCode::CONTINUE || std::mem::take(&mut self.upload.awaits_continue);
        if self.client.http_1_0 || !wanted {
            return Ok(());
        }
        scratch::write(|out| {
            self.download.response.write_interim(out);
            self.download.send(cx, &mut self.wire.transport, out, &[])
        })
        .map_err(gone)
    }

    fn pass(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>, octets: &[u8]) -> Result<(), FailureKind> {
        let written = self.download.pass(cx, &mut self.wire.transport, out, octets);
        written.map_err(|_| FailureKind::Broken)?.map_err(gone)
    }

    /// The request is complete: what comes now is the next one, or the client's going away.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.wire.ahead.len() < AHEAD {
            match ready!(self.wire.poll_fill(cx)) {
                Ok(1..) => {}
                _ => return Poll::Ready(()),
            }
        }
        Poll::Pending
    }

    fn failed(&self, kind: FailureKind) -> End {
        let response_started = self.download.started;
        let stale = kind == FailureKind::Broken && self.connection.reused && !self.download.heard;
        let replayable = self.upload.is_replayable();
        End::Failed(Failure { kind, stale, sent: true, replayable, response_started })
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

fn gone(_: io::Error) -> FailureKind {
    FailureKind::Client
}
