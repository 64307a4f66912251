//! The response of one stream, as it is sent.

use std::mem;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::StatusCode;
use http::header::{CONTENT_LENGTH, DATE, HeaderMap, HeaderValue};
use pingora_core::protocols::http::date::get_cached_date;

use super::gone;
use crate::body::downstream::Passed;
use crate::io::budget::{self, Reservation};
use crate::io::counted::counted;
use crate::io::deadlines::Deadlines;
use crate::io::deadlines::STALL;
use crate::message::fields::FieldsMut;
use crate::message::framing::FramedBytes;
use crate::message::http2::{map, trailers};
use crate::message::response::Response;
use crate::message::trailers::{HiddenTrailers, Section};
use crate::pipeline::{Answer, FailureKind};

/// The response of one stream.
pub(super) struct Reply {
    reply: SendResponse<Bytes>,
    /// The stream for the body. `None` until the head is sent.
    stream: Option<SendStream<Bytes>>,
    /// Bytes that the client's windows do not allow yet.
    rest: Bytes,
    /// Trailers that follow `rest`.
    trailers: Option<HeaderMap>,
    complete: bool,
    /// The code of RST_STREAM if the response breaks off.
    reason: Reason,
    /// The trailer section read so far.
    section: Section,
    hidden_trailers: HiddenTrailers,
    head_sent: u64,
    body_sent: u64,
}

/// What a tunnel takes over from a response whose head was sent.
pub(super) struct Opened {
    pub(super) stream: SendStream<Bytes>,
    /// Bytes that the client's windows do not allow yet.
    pub(super) rest: Bytes,
    pub(super) head_sent: u64,
    pub(super) body_sent: u64,
}

impl Reply {
    pub(super) fn new(reply: SendResponse<Bytes>) -> Self {
        Self {
            reply,
            stream: None,
            rest: Bytes::new(),
            trailers: None,
            complete: false,
            reason: Reason::INTERNAL_ERROR,
            section: Section::default(),
            hidden_trailers: HiddenTrailers::default(),
            head_sent: 0,
            body_sent: 0,
        }
    }

    /// Sets the code of RST_STREAM for a response that breaks off.
    pub(super) fn set_reason(&mut self, reason: Reason) {
        self.reason = reason;
    }

    /// Resets the stream.
    pub(super) fn reset(&mut self) {
        match &mut self.stream {
            Some(stream) => stream.send_reset(self.reason),
            None => self.reply.send_reset(self.reason),
        }
    }

    /// Ready when the client has reset the stream.
    pub(super) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let reset = match &mut self.stream {
            Some(stream) => stream.poll_reset(cx),
            None => self.reply.poll_reset(cx),
        };
        reset.map(|_| ())
    }

    /// Sends an interim response.
    pub(super) fn interim(&mut self, response: &mut Response) -> Result<(), FailureKind> {
        response.deliver_interim();
        let head = head(response.status, map(response.fields.iter(), 0));
        self.reply.send_informational(head).map_err(gone)
    }

    /// Sends a final head and the first bytes of its body.
    pub(super) fn begin(&mut self, response: &mut Response, bytes: &[u8]) -> Result<Passed, FailureKind> {
        let fields = relayed(response);
        self.hidden_trailers = mem::take(&mut response.hidden_trailers);
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

    /// Sends the head that opens a tunnel, and the first bytes in it.
    pub(super) fn open(&mut self, response: &mut Response, bytes: &[u8]) -> Result<Passed, FailureKind> {
        let fields = relayed(response);
        self.send_head(StatusCode::OK, fields, false)?;
        self.rest = Bytes::copy_from_slice(bytes);
        self.deliver()?;
        Ok(Passed { taken: bytes.len(), data: bytes.len() })
    }

    /// Returns what a tunnel takes over; `None` before the head was sent.
    pub(super) fn opened(self) -> Option<Opened> {
        let Self { stream, rest, head_sent, body_sent, .. } = self;
        Some(Opened { stream: stream?, rest, head_sent, body_sent })
    }

    /// Sends more of the body.
    pub(super) fn pass(&mut self, response: &mut Response, bytes: &[u8]) -> Result<Passed, FailureKind> {
        let passed = self.read(response, bytes)?;
        self.complete = response.framing.is_done() || response.is_last;
        self.deliver()?;
        Ok(passed)
    }

    /// Sends more of a body without a framing of its own.
    pub(super) fn pass_piece(&mut self, content: Bytes) -> Result<Passed, FailureKind> {
        let (length, mut share) = (content.len(), Reservation::of_flow());
        share.hold(length);
        self.rest = counted(content, share);
        self.deliver()?;
        Ok(Passed { taken: length, data: length })
    }

    /// Ends the body.
    pub(super) fn end(&mut self, section: Option<&HeaderMap>) -> Result<(), FailureKind> {
        if self.complete {
            return Ok(());
        }
        self.trailers = section.and_then(|section| trailers(section, &self.hidden_trailers));
        self.complete = true;
        self.deliver()
    }

    /// Sends an answer of the gateway; `bare` is one without its body.
    pub(super) fn answer(&mut self, answer: &Answer, bare: bool) -> Result<(), FailureKind> {
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

    /// Ready when the client's windows have allowed everything.
    pub(super) fn poll_flush(
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

    /// Returns the bytes of head and body that were sent, and the bytes of the body.
    pub(super) fn sent(&self) -> (u64, u64) {
        (self.head_sent + self.body_sent, self.body_sent)
    }

    /// Returns the number of bytes that wait for the client's windows.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.rest.len()
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
            let trailers = map(self.section.fields(&self.hidden_trailers), 0);
            self.trailers = Some(trailers).filter(|trailers| !trailers.is_empty());
        }
        Ok(passed)
    }
}

/// Returns the fields of a response of an endpoint, with `Date` as in HTTP/1.
fn relayed(response: &mut Response) -> HeaderMap {
    response.deliver(false);
    if response.is_dated() {
        return map(response.fields.iter(), 0);
    }
    response.fields.remove(&DATE);
    let mut fields = map(response.fields.iter(), 1);
    fields.insert(DATE, get_cached_date());
    fields
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
