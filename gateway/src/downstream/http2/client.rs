//! An HTTP/2 client during one request: one stream of its connection.
//!
//! Memory is bounded in both directions. A request body is read only as fast as the endpoint takes
//! it, and the client's window stays closed until then. `h2` receives only as much of a response as
//! the client's windows allow; the rest, at most one read from the endpoint, waits here, and
//! nothing more is read meanwhile. A client that opens no window therefore occupies that much until
//! its deadline.

mod reply;
mod settle;
mod websocket;

use std::io::Write;
use std::mem;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::StatusCode;
use http::header::HeaderMap;

use self::reply::Reply;
use super::OpenStream;
use crate::body::downstream::{ClientSide, Downstream, Passed};
use crate::body::pieces::{Decoder, Piece, poll_joined};
use crate::body::whole::WholeBody;
use crate::io::budget;
use crate::io::deadlines::Deadlines;
use crate::io::scratch;
use crate::message::field_list::line;
use crate::message::field_names::FieldNames;
use crate::message::framing::Framing;
use crate::message::head::Head;
use crate::message::head::http2::is_valid_in_http1;
use crate::message::head::websocket::Accept;
use crate::message::http2::trailers;
use crate::message::response::Response;
use crate::message::trailers::passes;
use crate::pipeline::{Answer, FailureKind};

/// One stream.
pub(super) struct Client {
    open: OpenStream,
    body: RecvStream,
    awaits_continue: bool,
    /// The rest of the request body, as the endpoint receives it.
    framing: Framing,
    /// The body, if no endpoint gets it; `framing` is then [`Framing::NONE`].
    withheld: Option<Framing>,
    /// The body, if it was gathered; `framing` is then [`Framing::NONE`].
    whole: Option<WholeBody>,
    /// The names of trailers that the client may send.
    names: FieldNames,
    /// Bytes of the body that were passed on but not yet taken by the endpoint.
    unreleased: usize,
    /// The value with which the endpoint accepts an extended CONNECT, if the request is one.
    accept: Option<Accept>,
    reply: Reply,
}

impl Client {
    pub(super) fn new(
        body: RecvStream,
        reply: SendResponse<Bytes>,
        framing: Framing,
        names: FieldNames,
        open: OpenStream,
    ) -> Self {
        Self {
            open,
            awaits_continue: false,
            body,
            framing,
            withheld: None,
            whole: None,
            names,
            unreleased: 0,
            accept: None,
            reply: Reply::new(reply),
        }
    }

    /// Returns the client of the request with this head.
    pub(super) fn of(
        head: &Head,
        mut body: RecvStream,
        reply: SendResponse<Bytes>,
        mut open: OpenStream,
    ) -> Self {
        if !body.is_end_stream() {
            open.begin_body(body.flow_control().clone());
        }
        let awaits_continue = head.expects_continue && !head.framing.is_done();
        Self { awaits_continue, ..Self::new(body, reply, head.framing, head.names, open) }
    }

    /// Records how the stream ended.
    pub(super) fn ended(&self, cancelled: bool) {
        self.open.ended(cancelled);
    }

    /// Resets the stream because the response broke off. Returns whether the client caused it.
    pub(super) fn reset(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let is_shed = self.open.is_shed(&cx);
        if is_shed {
            self.reply.set_reason(Reason::ENHANCE_YOUR_CALM);
        } else if self.poll_client_closed(&mut cx, false).is_ready() {
            return true;
        }
        self.reply.reset();
        is_shed
    }

    /// Takes `length` bytes of the body, which `h2` holds, in one piece. `None` if the stream was
    /// reset.
    fn take_arrived(&mut self, cx: &mut Context<'_>, length: usize) -> Option<Bytes> {
        let mut content = BytesMut::new();
        while self.unreleased < length {
            let Poll::Ready(Some(Ok(data))) = self.body.poll_data(cx) else { return None };
            self.unreleased += data.len();
            if data.len() == length {
                return self.finish_body().ok().map(|()| data);
            }
            content.reserve(length - content.len());
            content.extend_from_slice(&data);
        }
        self.finish_body().ok().map(|()| content.freeze())
    }

    /// Reopens the client's window by the bytes that the endpoint has taken.
    fn release(&mut self) -> Result<(), FailureKind> {
        match mem::take(&mut self.unreleased) {
            0 => Ok(()),
            taken => {
                self.open.count_released(taken);
                self.body.flow_control().release_capacity(taken).map_err(gone)
            }
        }
    }

    /// Completes the body: its last piece must not hold window while the response is in progress.
    fn finish_body(&mut self) -> Result<(), FailureKind> {
        self.open.waits();
        self.release()
    }
}

impl ClientSide for Client {
    fn withhold_body(&mut self) {
        self.withheld = Some(mem::replace(&mut self.framing, Framing::NONE));
        self.open.waits();
    }

    fn close_after_response(&mut self) {}
}

impl Downstream for Client {
    fn is_spent(&self) -> bool {
        self.framing.is_done() && self.whole.as_ref().is_none_or(WholeBody::is_given)
    }

    fn has_whole_body(&self) -> bool {
        self.whole.is_some() || self.is_spent()
    }

    fn gather(&mut self, cx: &mut Context<'_>) -> bool {
        let length = self.framing.left().filter(|left| *left <= WholeBody::MOST);
        let Some(length) = length.map(|left| left as usize) else { return false };
        // `used_capacity` is the number of bytes that `h2` holds. A partial body is left there.
        if self.awaits_continue || self.body.flow_control().used_capacity() < length || !budget::has_room() {
            return false;
        }
        self.whole = self.take_arrived(cx, length).map(WholeBody::new);
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
        self.release()?;
        self.open.reads(self.framing.left());
        let data = ready!(self.body.poll_data(cx)).transpose().map_err(gone)?;
        self.unreleased = data.as_ref().map_or(0, Bytes::len);
        match (&mut self.framing, data) {
            (Framing::Length(left), Some(data)) => {
                // `h2` checks the length too. Checked twice, because an endpoint would read excess
                // bytes as the next request.
                *left = left.checked_sub(data.len() as u64).ok_or(FailureKind::Client)?;
                pass(cx, &data, data.len());
            }
            (Framing::Length(_), None) => return Poll::Ready(Err(FailureKind::Client)),
            (_, Some(data)) => scratch::write(|out| {
                if !data.is_empty() {
                    // Writing to a vector does not fail.
                    let _ = write!(out, "{:x}\r\n", data.len());
                    out.extend_from_slice(&data);
                    out.extend_from_slice(b"\r\n");
                }
                if self.body.is_end_stream() {
                    out.extend_from_slice(b"0\r\n\r\n");
                    self.framing = Framing::NONE;
                }
                pass(cx, out, data.len());
            }),
            (_, None) => {
                let fields = ready!(self.body.poll_trailers(cx)).map_err(gone)?;
                scratch::write(|out| {
                    out.extend_from_slice(b"0\r\n");
                    for (name, value) in fields.iter().flatten() {
                        if !is_valid_in_http1(name, value, self.names) {
                            return Err(FailureKind::ClientMalformed);
                        }
                        if passes(name.as_str().as_bytes(), self.names) {
                            line(out, name.as_str().as_bytes(), value.as_bytes());
                        }
                    }
                    out.extend_from_slice(b"\r\n");
                    self.framing = Framing::NONE;
                    pass(cx, out, 0);
                    Ok(())
                })?;
            }
        }
        if self.is_spent() {
            self.finish_body()?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>, _: &mut Decoder) -> Poll<Result<Piece, FailureKind>> {
        if let Some(whole) = &mut self.whole {
            return Poll::Ready(Ok(whole.piece()));
        }
        self.release()?;
        self.open.reads(self.framing.left());
        loop {
            match poll_joined(cx, &mut self.body) {
                // Trailers may follow a body with a length. They are not waited for.
                Poll::Pending if self.is_spent() => return Poll::Ready(Ok(Piece::End)),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => break,
                Poll::Ready(Some(content)) => {
                    let content = content.map_err(gone)?;
                    if content.is_empty() {
                        continue;
                    }
                    self.unreleased = content.len();
                    if let Framing::Length(left) = &mut self.framing {
                        *left = left.checked_sub(content.len() as u64).ok_or(FailureKind::Client)?;
                    }
                    let ends = self.body.is_end_stream() && !matches!(self.framing, Framing::Length(1..));
                    if ends {
                        self.framing = Framing::NONE;
                        self.finish_body()?;
                    }
                    return Poll::Ready(Ok(Piece::Data { content, ends }));
                }
            }
        }
        let fields = ready!(self.body.poll_trailers(cx)).map_err(gone)?;
        if matches!(self.framing, Framing::Length(1..)) {
            return Poll::Ready(Err(FailureKind::Client));
        }
        self.framing = Framing::NONE;
        let Some(fields) = fields else { return Poll::Ready(Ok(Piece::End)) };
        if !fields.iter().all(|(name, value)| is_valid_in_http1(name, value, self.names)) {
            return Poll::Ready(Err(FailureKind::ClientMalformed));
        }
        Poll::Ready(Ok(trailers(&fields, &self.names).map_or(Piece::End, Piece::Trailers)))
    }

    fn taken_back(&mut self, reason: Reason) {
        // Other codes concern the endpoint's connection, or would make the client retry an answered
        // request.
        if [Reason::CANCEL, Reason::ENHANCE_YOUR_CALM, Reason::INADEQUATE_SECURITY].contains(&reason) {
            self.reply.set_reason(reason);
        }
    }

    fn set_stalled(&mut self, stalled: bool) {
        if stalled {
            self.open.waits();
        }
    }

    fn rewind(&mut self) -> bool {
        if let Some(whole) = &mut self.whole {
            whole.rewind();
        }
        self.whole.is_some()
    }

    /// The client can cancel its request at any time. It also counts as gone if other streams need
    /// its window.
    fn poll_client_closed(&mut self, cx: &mut Context<'_>, _: bool) -> Poll<()> {
        if self.open.is_shed(cx) {
            return Poll::Ready(());
        }
        self.reply.poll_reset(cx)
    }

    /// A client that leaves resets its stream, which `poll_client_closed` reports.
    fn has_left(&self) -> bool {
        false
    }

    fn interim(&mut self, _: &mut Context<'_>, response: &mut Response) -> Result<(), FailureKind> {
        if response.status == StatusCode::CONTINUE && !mem::take(&mut self.awaits_continue) {
            return Ok(());
        }
        self.reply.interim(response)
    }

    fn respond(
        &mut self,
        _: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        if response.switches() {
            return self.begin_tunnel(response, bytes);
        }
        // For the client, a status of success would mean that the tunnel is open.
        if self.accept.is_some() && response.status.is_success() {
            return Err(FailureKind::InvalidHead);
        }
        self.reply.begin(response, bytes)
    }

    fn pass(
        &mut self,
        _: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        self.reply.pass(response, bytes)
    }

    fn pass_piece(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        content: Bytes,
    ) -> Result<Passed, FailureKind> {
        if response.framing != Framing::Opaque {
            return self.pass(cx, response, &content);
        }
        self.reply.pass_piece(content)
    }

    fn end(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Response,
        section: Option<&HeaderMap>,
    ) -> Result<(), FailureKind> {
        self.reply.end(section)
    }

    fn answer(&mut self, _: &mut Context<'_>, answer: &Answer, bare: bool) -> Result<(), FailureKind> {
        self.reply.answer(answer, bare)
    }

    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        deadlines: &mut Deadlines,
    ) -> Poll<Result<(), FailureKind>> {
        self.reply.poll_flush(cx, deadlines)
    }

    fn sent(&self) -> (u64, u64) {
        self.reply.sent()
    }
}

fn gone(_: h2::Error) -> FailureKind {
    FailureKind::Client
}

#[cfg(test)]
mod tests;
