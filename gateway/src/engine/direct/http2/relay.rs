//! One attempt over a stream of HTTP/2. Each side may send as much more as the other one has
//! accepted.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{RecvStream, SendStream};
use http::Method;

use super::upload::Upload;
use crate::body::downstream::Downstream;
use crate::body::piece_queue::PieceQueue;
use crate::body::pieces::poll_joined;
use crate::engine::direct::attempt_io::AttemptIo;
use crate::engine::direct::download::{Download, Receiving};
use crate::engine::direct::relay;
use crate::engine::direct::upload_timeouts::UploadTimeouts;
use crate::io::budget::{self, Reservation};
use crate::message::framing::Framing;
use crate::message::http2;
use crate::pipeline::{FailureKind, Next, Originator};
use crate::upstream::http2::{StreamError, StreamPermit, StreamProgress};

/// Bytes of a body that are forwarded at a time.
const PORTION: usize = 64 * 1024;
/// Bytes of a body that are forwarded together with the head.
const WITH_HEAD: usize = 4 * 1024;

/// One attempt.
pub(super) struct Relay<'r, D, O> {
    pub(super) attempt_io: AttemptIo<'r, D, O>,
    pub(super) upload: &'r mut Upload,
    pub(super) timeouts: UploadTimeouts,
    pub(super) stream: SendStream<Bytes>,
    pub(super) incoming: Incoming,
    pub(super) stream_permit: &'r StreamPermit,
    pub(super) method: &'r Method,
    /// The client finds the end of the body by its length.
    pub(super) keeps_length: bool,
    /// Why the stream failed, if it has.
    pub(super) stream_error: Option<StreamError>,
    /// Frames that only showed that the endpoint is alive, when a deadline last passed.
    pub(super) signs_of_life: u64,
}

/// The response as it arrives.
pub(super) struct Incoming {
    source: Source,
    /// Bytes that may not be forwarded yet.
    held: Bytes,
    /// Pieces behind `held`.
    gathered: PieceQueue,
    /// Memory of both.
    share: Reservation,
    /// Bytes that were forwarded and are not accepted yet.
    unreleased: usize,
}

enum Source {
    Head(ResponseFuture),
    Body(RecvStream),
}

impl Incoming {
    pub(super) fn new(response: ResponseFuture) -> Self {
        Self {
            source: Source::Head(response),
            held: Bytes::new(),
            gathered: PieceQueue::default(),
            share: Reservation::default(),
            unreleased: 0,
        }
    }

    /// The client has accepted the forwarded bytes: the endpoint may send as many again.
    fn release(&mut self) {
        if let (Source::Body(body), 1..) = (&mut self.source, self.unreleased) {
            // It fails only if more is released than arrived.
            let _ = body.flow_control().release_capacity(mem::take(&mut self.unreleased));
        }
    }

    /// The next part, of at most so many bytes.
    fn take(&mut self, most: usize) -> Bytes {
        let part = self.held.split_to(most.min(self.held.len()));
        self.unreleased += part.len();
        self.share.shrink(self.waiting());
        part
    }

    /// Takes all pieces out of `h2` while none can be forwarded. `h2` does not count their memory,
    /// and ends the connection of all calls if it holds too many of them. Their size is bounded by
    /// the window, of which nothing is released for them.
    fn gather(&mut self, cx: &mut Context<'_>) {
        let Source::Body(body) = &mut self.source else { return };
        while let Poll::Ready(Some(Ok(piece))) = body.poll_data(cx) {
            self.gathered.push(piece);
        }
        self.share.hold(self.waiting());
    }

    /// Number of bytes that may not be forwarded yet.
    fn waiting(&self) -> usize {
        self.held.len() + self.gathered.bytes()
    }
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
        let Self { upload, attempt_io, stream, timeouts, .. } = self;
        let AttemptIo { downstream, deadlines, .. } = attempt_io;
        let polled = upload.poll(cx, *downstream, stream, deadlines, *timeouts);
        downstream.set_stalled(upload.is_stalled());
        polled
    }

    fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Next<O::Answer>>, FailureKind>> {
        loop {
            let AttemptIo { downstream, deadlines, download, .. } = &mut self.attempt_io;
            if downstream.poll_flush(cx, deadlines)?.is_pending() {
                self.incoming.gather(cx);
                return Poll::Pending;
            }
            self.incoming.release();
            if download.state == Receiving::Done {
                return Poll::Ready(Ok(None));
            }
            if self.attempt_io.poll_room(cx).is_pending() {
                self.incoming.gather(cx);
                return Poll::Pending;
            }
            let read = match &self.incoming.source {
                Source::Head(_) => self.poll_head(cx)?,
                Source::Body(_) => self.poll_body(cx)?.map(|()| None),
            };
            match read {
                Poll::Ready(Some(next)) => return Poll::Ready(Ok(Some(next))),
                Poll::Ready(None) => {
                    self.attempt_io.download.heard = true;
                    self.attempt_io.deadlines.endpoint_sent(self.timeouts.client);
                }
                Poll::Pending if self.attempt_io.pause(cx)? => {}
                Poll::Pending => {
                    if self.attempt_io.waits_for_endpoint(self.upload.is_sending()) {
                        self.attempt_io.deadlines.read.begin(self.attempt_io.upstream.read_timeout);
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// As in nginx, a PING or an empty DATA frame begins the timeouts anew once the response has
    /// begun. PING concerns no stream, so all calls of the connection go on.
    fn outlives(&mut self, passed: FailureKind) -> bool {
        let signs_of_life = self.stream_permit.signs_of_life();
        let is_alive = mem::replace(&mut self.signs_of_life, signs_of_life) != signs_of_life;
        let AttemptIo { deadlines, download, upstream, .. } = &mut self.attempt_io;
        let outlives = is_alive
            && download.state == Receiving::Body
            && matches!(passed, FailureKind::ReadTimeout | FailureKind::ClientTimeout);
        if outlives {
            deadlines.endpoint_lives(upstream.read_timeout, self.timeouts.client);
        }
        outlives
    }

    fn failed(&mut self, kind: FailureKind) -> Next<O::Answer> {
        let progress = StreamProgress {
            heard: self.attempt_io.download.heard,
            response_started: self.attempt_io.download.started,
            replayable: self.upload.is_replayable(),
        };
        let stream_error = self.stream_error.unwrap_or_else(|| StreamError::given_up(kind));
        if let Some(reason) = stream_error.reset {
            self.attempt_io.downstream.taken_back(reason);
        }
        self.attempt_io.originator.failed(stream_error.failure(self.stream_permit, progress))
    }
}

impl<D: Downstream, O: Originator> Relay<'_, D, O> {
    /// Returns whether the attempt ends before the endpoint has sent its whole response, so that
    /// the stream is reset.
    pub(super) fn is_cancelled(&self) -> bool {
        let is_incomplete = match &self.incoming.source {
            Source::Head(_) => true,
            Source::Body(body) => self.attempt_io.download.state == Receiving::Body && !body.is_end_stream(),
        };
        is_incomplete && self.stream_error.is_none()
    }

    /// Handles the next interim head, or the final one.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Result<Poll<Option<Next<O::Answer>>>, FailureKind> {
        let Source::Head(response) = &mut self.incoming.source else { return Ok(Poll::Pending) };
        if let Poll::Ready(Some(interim)) = response.poll_informational(cx) {
            let interim = interim.map_err(|error| self.stream_error(&error))?;
            let Download { response, heads, .. } = &mut *self.attempt_io.download;
            *response = http2::interim(&interim).map_err(|_| FailureKind::InvalidHead)?;
            heads.take(response, false)?;
            self.attempt_io.interim(cx)?;
            return Ok(Poll::Ready(None));
        }
        let Poll::Ready(head) = Pin::new(response).poll(cx) else { return Ok(Poll::Pending) };
        let (parts, mut body) = head.map_err(|error| self.stream_error(&error))?.into_parts();
        let response = http2::response(&parts, self.method, self.keeps_length, body.is_end_stream());
        self.attempt_io.download.response = response.map_err(|_| FailureKind::InvalidHead)?;
        self.attempt_io.download.heard = true;
        self.attempt_io.deadlines.read.end();
        // The part of the body that has arrived is sent with the head.
        let bodiless = self.attempt_io.download.response.framing.is_done();
        if !bodiless && let Poll::Ready(Some(Ok(first))) = poll_joined(cx, &mut body) {
            self.incoming.held = first;
        }
        self.incoming.source = Source::Body(body);
        let most = if self.incoming.held.len() <= WITH_HEAD {
            self.attempt_io.downstream.portion(WITH_HEAD)
        } else {
            0
        };
        let first = self.incoming.take(most);
        Ok(Poll::Ready(self.attempt_io.begin_response(cx, self.upload.is_replayable(), &first)?))
    }

    /// Forwards the next part of the body, or its end.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, FailureKind> {
        let Source::Body(body) = &mut self.incoming.source else { return Ok(Poll::Pending) };
        if self.incoming.held.is_empty() {
            self.incoming.held = self.incoming.gathered.pop();
        }
        if self.incoming.held.is_empty() {
            match poll_joined(cx, body) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Some(Ok(piece))) => self.incoming.held = piece,
                Poll::Ready(Some(Err(error))) => return Err(self.stream_error(&error)),
                Poll::Ready(None) => return self.poll_end(cx),
            }
        }
        let AttemptIo { downstream, download, .. } = &mut self.attempt_io;
        let part = self.incoming.take(downstream.portion(budget::portion(PORTION)));
        let length = part.len();
        let passed = downstream.pass_piece(cx, &mut download.response, part)?;
        download.passed(passed, length);
        Ok(Poll::Ready(()))
    }

    /// The content is complete; trailers may follow.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, FailureKind> {
        let Source::Body(body) = &mut self.incoming.source else { return Ok(Poll::Pending) };
        let Poll::Ready(trailers) = body.poll_trailers(cx) else { return Ok(Poll::Pending) };
        let trailers = trailers.map_err(|error| self.stream_error(&error))?;
        let AttemptIo { downstream, download, .. } = &mut self.attempt_io;
        if download.response.framing != Framing::Opaque {
            // It is shorter than its length.
            return Err(FailureKind::Broken);
        }
        download.state = Receiving::Done;
        downstream.end(cx, &mut download.response, trailers.as_ref())?;
        Ok(Poll::Ready(()))
    }

    fn stream_error(&mut self, error: &h2::Error) -> FailureKind {
        self.stream_error.insert(StreamError::of(error)).kind
    }
}
