//! An HTTP/1 client during one request: its body is read from the wire as the endpoint takes it,
//! and the response is written to the wire.

use std::io::{self, IoSlice, Write};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::{HeaderMap, StatusCode, Version};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::body::downstream::{ClientSide, Downstream, Passed};
use crate::body::whole::WholeBody;
use crate::downstream::MAX_DRAIN;
use crate::downstream::answer::write_head;
use crate::engine::tunnel::{Switched, Tunnel};
use crate::io::budget;
use crate::io::deadlines::Deadlines;
use crate::io::deadlines::STALL;
use crate::io::flow::Flow;
use crate::io::scratch;
use crate::io::transport::has_left;
use crate::io::wire::Wire;
use crate::io::write_buffer::WriteBuffer;
use crate::message::field_list::line;
use crate::message::field_names::FieldNames;
use crate::message::framing::FramedBytes;
use crate::message::framing::Framing;
use crate::message::head::Head;
use crate::message::response::Delivery;
use crate::message::response::Response;
use crate::message::trailers::{HiddenTrailers, Section, TrailerFilter};
use crate::pipeline::{Answer, FailureKind};
use crate::worker::Worker;

/// Maximum size of output that is sent in one piece: one TLS record.
const JOIN: usize = 16 * 1024;
/// The last chunk, which precedes the trailers of a chunked body (RFC 9112 §7.1).
const LAST_CHUNK: &[u8] = b"0\r\n";
/// Bytes of the next requests that are read while this one is open and memory is plentiful.
/// Otherwise one read.
const AHEAD: usize = 64 * 1024;

/// The client of one request.
pub(super) struct Client {
    wire: Box<Wire>,
    worker: Arc<Worker>,
    http_1_0: bool,
    /// Whether the connection stays open after this response, as far as is known.
    pub(super) keep: bool,
    awaits_continue: bool,
    /// The rest of the request body.
    framing: Framing,
    /// The request body, if no endpoint gets it; `framing` is then [`Framing::NONE`].
    withheld: Option<Framing>,
    /// The body, if it was gathered; `framing` is then [`Framing::NONE`].
    whole: Option<WholeBody>,
    /// The names of trailers that the client may send, and the trailers of its request.
    names: FieldNames,
    request_trailers: Section,
    /// The trailers of the response, and those that the client does not see.
    trailers: Section,
    hidden_trailers: HiddenTrailers,
    /// The end of a body that Sluice puts into chunks was sent with its last piece.
    ended: bool,
    /// Bytes written.
    sent: u64,
    /// Bytes of the body written, without its coding.
    body_sent: u64,
    write_buffer: WriteBuffer,
    /// The rest of a generated response, after `write_buffer`. Not copied there, because a page may
    /// be large.
    rest: Bytes,
    flushed: bool,
}

impl Client {
    pub(super) fn new(wire: Box<Wire>, worker: Arc<Worker>, head: &Head, keep: bool) -> Self {
        Self {
            awaits_continue: head.expects_continue && !head.framing.is_done(),
            http_1_0: head.version == Version::HTTP_10,
            keep,
            framing: head.framing,
            names: head.names,
            ..Self::refused(wire, worker)
        }
    }

    /// Returns the client of a rejected request. Its connection ends.
    pub(super) fn refused(wire: Box<Wire>, worker: Arc<Worker>) -> Self {
        Self {
            wire,
            worker,
            awaits_continue: false,
            http_1_0: false,
            keep: false,
            framing: Framing::NONE,
            withheld: None,
            whole: None,
            names: FieldNames::ANY,
            request_trailers: Section::default(),
            trailers: Section::default(),
            hidden_trailers: HiddenTrailers::default(),
            ended: false,
            sent: 0,
            body_sent: 0,
            write_buffer: WriteBuffer::default(),
            rest: Bytes::new(),
            flushed: false,
        }
    }

    /// Takes the connection apart after the endpoint has switched protocols.
    pub(super) fn into_tunnel(self, switched: Switched) -> (Box<Wire>, Box<Tunnel>) {
        let Self { mut wire, sent, body_sent, write_buffer, .. } = self;
        let heads = (sent + write_buffer.len() as u64).saturating_sub(body_sent);
        let (status, down) = (StatusCode::SWITCHING_PROTOCOLS, Flow::after(write_buffer, body_sent));
        let tunnel = Tunnel::new(switched, status, &wire.ahead, down, heads);
        wire.ahead.clear();
        wire.rest();
        (wire, tunnel)
    }

    /// Returns the connection after the request.
    pub(super) fn into_wire(self) -> Box<Wire> {
        self.wire
    }

    /// Returns the framing of the request body that was not read.
    pub(super) fn unread(&self) -> Framing {
        self.withheld.unwrap_or(self.framing)
    }

    /// Returns whether the rest of the request body can be read and dropped: it is short, and the
    /// client does not wait for `100 Continue`.
    fn can_drain(&self) -> bool {
        let left = self.unread().left();
        left == Some(0) || left.is_some_and(|left| left <= MAX_DRAIN) && !self.awaits_continue
    }

    /// Writes `head` and `body`; bytes that the client does not take at once wait. Small ones are
    /// joined. `whole`: they end the response.
    fn send(&mut self, cx: &mut Context<'_>, head: &mut Vec<u8>, body: &[u8], whole: bool) -> io::Result<()> {
        let left = self.write(cx, head, body, whole)?;
        self.write_buffer.push(&body[body.len() - left..]);
        Ok(())
    }

    /// Like [`send`](Self::send), but returns the number of unsent body bytes instead of keeping
    /// them.
    fn write(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut Vec<u8>,
        mut body: &[u8],
        whole: bool,
    ) -> io::Result<usize> {
        if !head.is_empty() && head.len() + body.len() <= JOIN {
            head.extend_from_slice(body);
            body = &[];
        }
        let mut head = &head[..];
        self.flushed = false;
        while self.write_buffer.is_empty() && head.len() + body.len() > 0 {
            let to = &mut self.wire.transport;
            let written = match (head, body) {
                ([], only) | (only, []) if whole && !self.keep => to.poll_write_last(cx, only),
                ([], only) | (only, []) => Pin::new(to).poll_write(cx, only),
                _ => Pin::new(to).poll_write_vectored(cx, &[IoSlice::new(head), IoSlice::new(body)]),
            };
            match written {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(sent)) => {
                    self.sent += sent as u64;
                    let of_head = sent.min(head.len());
                    (head, body) = (&head[of_head..], &body[sent - of_head..]);
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
        }
        self.write_buffer.push(head);
        Ok(body.len())
    }

    /// Writes the rest of a generated response, which ends it.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.rest.is_empty() {
            let to = &mut self.wire.transport;
            let written = match self.keep {
                true => Pin::new(to).poll_write(cx, &self.rest),
                false => to.poll_write_last(cx, &self.rest),
            };
            match ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => {
                    self.sent += sent as u64;
                    self.rest.advance(sent);
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends bytes of the body after those in `out`.
    fn pass_behind(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        out: &mut Vec<u8>,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        let mut data = 0;
        let framing = &mut response.framing;
        let (taken, body) = match response.delivery {
            Delivery::AsIs => {
                let trailers = &mut self.trailers;
                let read = framing.read_all(bytes, |piece| data += piece.len(), |byte| trailers.push(byte));
                let FramedBytes { whole, raw } = read.map_err(|_| FailureKind::InvalidHead)?;
                if framing.is_done() && !trailers.is_empty() {
                    out.extend_from_slice(&bytes[..raw]);
                    trailers.write(&self.hidden_trailers, out);
                    (whole, &[][..])
                } else {
                    (whole, &bytes[..raw])
                }
            }
            Delivery::UntilClose => {
                let taken = framing.read(bytes, |piece| {
                    data += piece.len();
                    out.extend_from_slice(piece);
                });
                (taken.map_err(|_| FailureKind::InvalidHead)?, &[][..])
            }
            Delivery::Chunked => {
                if !bytes.is_empty() {
                    // Writing to a vector does not fail.
                    let _ = write!(out, "{:x}\r\n", bytes.len());
                    out.extend_from_slice(bytes);
                    out.extend_from_slice(b"\r\n");
                }
                self.ended = response.is_last;
                if self.ended {
                    out.extend_from_slice(LAST_CHUNK);
                    out.extend_from_slice(b"\r\n");
                }
                data = bytes.len();
                (bytes.len(), &[][..])
            }
        };
        self.body_sent += data as u64;
        let whole = response.framing.is_done() || self.ended;
        self.send(cx, out, body, whole).map_err(gone)?;
        Ok(Passed { taken, data })
    }
}

impl ClientSide for Client {
    fn withhold_body(&mut self) {
        self.withheld = Some(mem::replace(&mut self.framing, Framing::NONE));
    }

    fn close_after_response(&mut self) {
        self.keep = false;
    }
}

impl Downstream for Client {
    fn is_spent(&self) -> bool {
        self.framing.is_done() && self.whole.as_ref().is_none_or(WholeBody::is_given)
    }

    fn has_whole_body(&self) -> bool {
        self.framing.left().is_some_and(|left| left <= self.wire.ahead.len() as u64)
    }

    fn gather(&mut self, cx: &mut Context<'_>) -> bool {
        let length = self.framing.left().filter(|left| *left <= WholeBody::MOST);
        let Some(length) = length.filter(|_| !self.awaits_continue && budget::has_room()) else {
            return false;
        };
        self.whole = self.wire.take_arrived(cx, length as usize).map(WholeBody::new);
        if self.whole.is_some() {
            self.framing = Framing::NONE;
        }
        self.whole.is_some()
    }

    fn awaits_continue(&self) -> bool {
        self.awaits_continue && self.withheld.is_none()
    }

    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        pass: impl FnOnce(&mut Context<'_>, &[u8], usize),
    ) -> Poll<Result<(), FailureKind>> {
        if let Some(whole) = &mut self.whole {
            let (content, fresh) = whole.give();
            pass(cx, content, fresh);
            return Poll::Ready(Ok(()));
        }
        let Self { wire, framing, names, request_trailers, .. } = self;
        let opaque = *framing == Framing::Opaque;
        let read = |bytes: &[u8], cx: &mut Context<'_>| {
            let mut data = 0;
            let read =
                framing.read_all(bytes, |piece| data += piece.len(), |byte| request_trailers.push(byte));
            let FramedBytes { whole, raw } = read.map_err(|_| FailureKind::ClientMalformed)?;
            if framing.is_done() && !request_trailers.is_empty() {
                let mut out = bytes[..raw].to_vec();
                request_trailers.write(names, &mut out);
                pass(cx, &out, data);
            } else {
                pass(cx, &bytes[..raw], data);
            }
            Ok(whole)
        };
        if !wire.ahead.is_empty() {
            let taken = read(&wire.ahead, cx)?;
            wire.ahead.advance(taken);
            wire.rest();
            return Poll::Ready(Ok(()));
        }
        let ended = ready!(scratch::read(|buffer| {
            let mut buf = ReadBuf::new(buffer);
            let polled = ready!(Pin::new(&mut wire.transport).poll_read(cx, &mut buf));
            let bytes = buf.filled();
            if polled.is_err() || bytes.is_empty() && !opaque {
                return Poll::Ready(Err(FailureKind::Client));
            }
            let taken = read(bytes, cx)?;
            wire.ahead.extend_from_slice(&bytes[taken..]);
            Poll::Ready(Ok(bytes.is_empty()))
        }))?;
        if ended {
            // The end of the connection ends a body without an end of its own.
            *framing = Framing::NONE;
        }
        Poll::Ready(Ok(()))
    }

    fn rewind(&mut self) -> bool {
        if let Some(whole) = &mut self.whole {
            whole.rewind();
        }
        self.whole.is_some()
    }

    /// Bytes after the request belong to the next one; the end of the stream means that the client
    /// disconnected.
    fn poll_client_closed(&mut self, cx: &mut Context<'_>, uploading: bool) -> Poll<()> {
        let reads_on = |ahead: usize| ahead == 0 || ahead < AHEAD && budget::has_plenty();
        while !uploading && reads_on(self.wire.ahead.len()) {
            match ready!(self.wire.poll_fill(cx)) {
                Ok(1..) => {}
                _ => return Poll::Ready(()),
            }
        }
        Poll::Pending
    }

    fn has_left(&self) -> bool {
        has_left(self.wire.transport.descriptor())
    }

    fn interim(&mut self, cx: &mut Context<'_>, response: &mut Response) -> Result<(), FailureKind> {
        let unwanted = response.status == StatusCode::CONTINUE && !mem::take(&mut self.awaits_continue);
        // HTTP/1.0 has no interim responses (RFC 9110 §15.2).
        if unwanted || self.http_1_0 {
            return Ok(());
        }
        scratch::write(|out| {
            response.write_interim(out);
            self.send(cx, out, &[], false)
        })
        .map_err(gone)
    }

    fn respond(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        response.deliver(self.http_1_0);
        let ends_here = response.delivery == Delivery::UntilClose;
        self.keep &= !ends_here && !self.worker.drain.is_draining() && self.can_drain();
        // An earlier attempt may have left trailers.
        self.trailers = Section::default();
        self.hidden_trailers = mem::take(&mut response.hidden_trailers);
        self.ended = false;
        scratch::write(|out| {
            response.write(out, self.keep);
            self.pass_behind(cx, response, out, bytes)
        })
    }

    fn pass(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        scratch::write(|out| self.pass_behind(cx, response, out, bytes))
    }

    fn end(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        trailers: Option<&HeaderMap>,
    ) -> Result<(), FailureKind> {
        if response.delivery != Delivery::Chunked || self.ended {
            return Ok(());
        }
        let mut out = LAST_CHUNK.to_vec();
        for (name, value) in trailers.into_iter().flatten() {
            let name = name.as_str().as_bytes();
            if self.hidden_trailers.passes(name) {
                line(&mut out, name, value.as_bytes());
            }
        }
        out.extend_from_slice(b"\r\n");
        self.send(cx, &mut out, &[], true).map_err(gone)
    }

    fn switched(&mut self) {
        self.framing = Framing::Opaque;
        self.whole = None;
        self.keep = false;
    }

    fn answer(&mut self, cx: &mut Context<'_>, answer: &Answer, bare: bool) -> Result<(), FailureKind> {
        self.keep &= !answer.close && !self.worker.drain.is_draining() && self.can_drain();
        if answer.silent {
            return Ok(());
        }
        let body = if bare { Bytes::new() } else { answer.body.clone() };
        self.body_sent = body.len() as u64;
        let mut head = Vec::with_capacity(512 + body.len().min(JOIN));
        write_head(answer, self.keep, &mut head);
        let left = self.write(cx, &mut head, &body, true).map_err(gone)?;
        self.rest = body.slice(body.len() - left..);
        Ok(())
    }

    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        deadlines: &mut Deadlines,
    ) -> Poll<Result<(), FailureKind>> {
        if self.flushed {
            return Poll::Ready(Ok(()));
        }
        let before = self.write_buffer.len() + self.rest.len();
        let write_buffer = self.write_buffer.len();
        let sent = self.write_buffer.poll_send(cx, &mut self.wire.transport);
        self.sent += (write_buffer - self.write_buffer.len()) as u64;
        let sent = match sent {
            Poll::Ready(Ok(())) => self.poll_rest(cx),
            other => other,
        };
        deadlines.taken(before - (self.write_buffer.len() + self.rest.len()));
        let flushed = match sent {
            Poll::Ready(Ok(())) => Pin::new(&mut self.wire.transport).poll_flush(cx),
            other => other,
        };
        if flushed.is_pending() {
            deadlines.stall.begin(Some(budget::stall_limit(STALL)));
        }
        ready!(flushed).map_err(gone)?;
        deadlines.stall.end();
        self.flushed = true;
        Poll::Ready(Ok(()))
    }

    /// Approximate while output is unsent.
    fn sent(&self) -> (u64, u64) {
        (self.sent, self.body_sent.saturating_sub((self.write_buffer.len() + self.rest.len()) as u64))
    }
}

fn gone(_: io::Error) -> FailureKind {
    FailureKind::Client
}
