//! An HTTP/2 client during one request: one stream of its connection.
//!
//! Memory is bounded in both directions. A request body is read only as fast as the endpoint takes
//! it, and the client's window stays closed until then. `h2` receives only as much of a response as
//! the client's windows allow; the rest, at most one read from the endpoint, waits here, and
//! nothing more is read meanwhile. A client that opens no window therefore occupies that much until
//! its deadline.

mod settle;
mod websocket;

use std::io::Write;
use std::mem;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::StatusCode;
use http::header::{CONTENT_LENGTH, DATE, HeaderMap, HeaderValue};
use pingora_core::protocols::http::date::get_cached_date;

use super::OpenStream;
use crate::body::downstream::{ClientSide, Downstream, Passed};
use crate::body::pieces::{Decoder, Piece, poll_joined};
use crate::body::whole::WholeBody;
use crate::io::budget::{self, Reservation};
use crate::io::counted::counted;
use crate::io::deadlines::Deadlines;
use crate::io::deadlines::STALL;
use crate::io::scratch;
use crate::message::field_list::line;
use crate::message::field_names::FieldNames;
use crate::message::fields::FieldsMut;
use crate::message::framing::FramedBytes;
use crate::message::framing::Framing;
use crate::message::head::Head;
use crate::message::head::http2::is_sound;
use crate::message::head::websocket::Accept;
use crate::message::hop_by_hop;
use crate::message::http2::{map, trailers};
use crate::message::response::Response;
use crate::message::trailers::Section;
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
    reply: SendResponse<Bytes>,
    /// The stream for the response body. `None` until the head is sent.
    stream: Option<SendStream<Bytes>>,
    /// Bytes that the client's windows do not allow yet.
    rest: Bytes,
    /// Trailers that follow `rest`.
    trailers: Option<HeaderMap>,
    complete: bool,
    /// The value with which the endpoint accepts an extended CONNECT, if the request is one.
    accept: Option<Accept>,
    /// The code of RST_STREAM if the response breaks off.
    reason: Reason,
    /// The trailer section read so far.
    section: Section,
    head_sent: u64,
    body_sent: u64,
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
            reply,
            stream: None,
            rest: Bytes::new(),
            trailers: None,
            complete: false,
            accept: None,
            reason: Reason::INTERNAL_ERROR,
            section: Section::default(),
            head_sent: 0,
            body_sent: 0,
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
            self.reason = Reason::ENHANCE_YOUR_CALM;
        } else if self.poll_client_closed(&mut cx, false).is_ready() {
            return true;
        }
        match &mut self.stream {
            Some(stream) => stream.send_reset(self.reason),
            None => self.reply.send_reset(self.reason),
        }
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

    /// Sends a final head. `complete`: there is no body.
    fn send_head(
        &mut self,
        status: StatusCode,
        fields: HeaderMap,
        complete: bool,
    ) -> Result<(), FailureKind> {
        self.head_sent = length(&fields);
        self.complete = complete;
        let head = head(status, fields);
        self.stream = Some(self.reply.send_response(head, complete).map_err(gone)?);
        Ok(())
    }

    /// Sends as much of the rest as the client's windows allow, and the end of the stream after it.
    fn deliver(&mut self) -> Result<(), FailureKind> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let length = self.rest.len();
        let mut room = 0;
        if length > 0 {
            stream.reserve_capacity(length);
            room = stream.capacity().min(length);
        }
        self.body_sent += room as u64;
        let all = room == length;
        let piece = if all { mem::take(&mut self.rest) } else { self.rest.split_to(room) };
        let ends = all && self.complete && self.trailers.is_none();
        if room > 0 || ends {
            stream.send_data(piece, ends).map_err(gone)?;
        }
        match self.trailers.take_if(|_| all && self.complete) {
            Some(trailers) => stream.send_trailers(trailers).map_err(gone),
            None => Ok(()),
        }
    }

    /// Decodes a piece of the response body into `rest`, and its trailers into `trailers`.
    fn read(&mut self, response: &mut Response, bytes: &[u8]) -> Result<Passed, FailureKind> {
        let mut data = Vec::new();
        let section = &mut self.section;
        let taken = response.framing.read_all(
            bytes,
            |piece| {
                if data.is_empty() {
                    data.reserve(bytes.len());
                }
                data.extend_from_slice(piece);
            },
            |trailer| section.push(trailer),
        );
        let FramedBytes { whole, .. } = taken.map_err(|_| FailureKind::InvalidHead)?;
        let passed = Passed { taken: whole, data: data.len() };
        let mut share = Reservation::of_flow();
        share.hold(data.capacity());
        // The reservation stays with the bytes, because `h2` keeps them until the socket takes
        // them.
        self.rest = counted(data, share);
        if response.framing.is_done() {
            let trailers = map(self.section.fields(FieldNames::ANY), 0);
            self.trailers = Some(trailers).filter(|trailers| !trailers.is_empty());
        }
        Ok(passed)
    }
}

impl ClientSide for Client {
    fn withhold_body(&mut self) {
        self.withheld = Some(mem::replace(&mut self.framing, Framing::NONE));
        self.open.waits();
    }
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
                        if !is_sound(name, value, self.names) {
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
        if !fields.iter().all(|(name, value)| is_sound(name, value, self.names)) {
            return Poll::Ready(Err(FailureKind::ClientMalformed));
        }
        Poll::Ready(Ok(trailers(&fields, self.names).map_or(Piece::End, Piece::Trailers)))
    }

    fn taken_back(&mut self, reason: Reason) {
        // Other codes concern the endpoint's connection, or would make the client retry an answered
        // request.
        if [Reason::CANCEL, Reason::ENHANCE_YOUR_CALM, Reason::INADEQUATE_SECURITY].contains(&reason) {
            self.reason = reason;
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
        let reset = match &mut self.stream {
            Some(stream) => stream.poll_reset(cx),
            None => self.reply.poll_reset(cx),
        };
        reset.map(|_| ())
    }

    /// A client that leaves resets its stream, which `poll_client_closed` reports.
    fn has_left(&self) -> bool {
        false
    }

    fn interim(&mut self, _: &mut Context<'_>, response: &mut Response) -> Result<(), FailureKind> {
        if response.status == StatusCode::CONTINUE && !mem::take(&mut self.awaits_continue) {
            return Ok(());
        }
        hop_by_hop::response(&mut response.fields, response.status);
        let head = head(response.status, map(response.fields.iter(), 0));
        self.reply.send_informational(head).map_err(gone)
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
        response.deliver(false);
        // As in HTTP/1, `Date` is the time of relaying.
        response.fields.remove(&DATE);
        let mut fields = map(response.fields.iter(), 1);
        fields.insert(DATE, get_cached_date());
        if response.framing.is_done() {
            self.send_head(response.status, fields, true)?;
            return Ok(Passed { taken: 0, data: 0 });
        }
        // Decoded before the head is sent, because a head cannot be revoked. An earlier attempt may
        // have left trailers.
        self.section = Section::default();
        let passed = self.read(response, bytes)?;
        self.send_head(response.status, fields, false)?;
        self.complete = response.framing.is_done() || response.is_last;
        self.deliver()?;
        Ok(passed)
    }

    fn pass(
        &mut self,
        _: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        let passed = self.read(response, bytes)?;
        self.complete = response.framing.is_done() || response.is_last;
        self.deliver()?;
        Ok(passed)
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
        let (length, mut share) = (content.len(), Reservation::of_flow());
        share.hold(length);
        self.rest = counted(content, share);
        self.deliver()?;
        Ok(Passed { taken: length, data: length })
    }

    fn end(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Response,
        section: Option<&HeaderMap>,
    ) -> Result<(), FailureKind> {
        if self.complete {
            return Ok(());
        }
        self.trailers = section.and_then(|section| trailers(section, FieldNames::ANY));
        self.complete = true;
        self.deliver()
    }

    fn answer(&mut self, _: &mut Context<'_>, answer: &Answer, bare: bool) -> Result<(), FailureKind> {
        if answer.silent {
            self.reply.send_reset(self.reason);
            return Ok(());
        }
        let mut fields = HeaderMap::with_capacity(answer.fields.len() + 2);
        fields.insert(DATE, get_cached_date());
        if answer.has_length() {
            fields.insert(CONTENT_LENGTH, HeaderValue::from(answer.body.len()));
        }
        for (name, value) in &answer.fields {
            fields.append(name.clone(), value.clone());
        }
        let complete = bare || answer.body.is_empty();
        self.send_head(answer.status, fields, complete)?;
        if !complete {
            self.rest = answer.body.clone();
            self.complete = true;
            self.deliver()?;
        }
        Ok(())
    }

    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        deadlines: &mut Deadlines,
    ) -> Poll<Result<(), FailureKind>> {
        while !self.rest.is_empty() {
            let Some(stream) = &mut self.stream else { break };
            match stream.poll_capacity(cx) {
                Poll::Ready(Some(Ok(_))) => {
                    let before = self.rest.len();
                    self.deliver()?;
                    deadlines.taken(before - self.rest.len());
                }
                Poll::Ready(_) => return Poll::Ready(Err(FailureKind::Client)),
                Poll::Pending => {
                    deadlines.stall.begin(Some(budget::stall_limit(STALL)));
                    return Poll::Pending;
                }
            }
        }
        deadlines.stall.end();
        Poll::Ready(Ok(()))
    }

    fn sent(&self) -> (u64, u64) {
        (self.head_sent + self.body_sent, self.body_sent)
    }
}

fn head(status: StatusCode, fields: HeaderMap) -> http::Response<()> {
    let mut head = http::Response::new(());
    *head.status_mut() = status;
    *head.headers_mut() = fields;
    head
}

/// Returns the bytes of names and values.
fn length(fields: &HeaderMap) -> u64 {
    fields.iter().map(|(name, value)| (name.as_str().len() + value.len()) as u64).sum()
}

fn gone(_: h2::Error) -> FailureKind {
    FailureKind::Client
}

#[cfg(test)]
mod tests;
