//! The client side of a call: the request body comes from memory, the response stays there.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::HeaderMap;

use crate::body::downstream::{Downstream, Passed};
use crate::body::tee::Feed;
use crate::io::budget::Reservation;
use crate::io::counted::counted;
use crate::io::deadlines::Deadlines;
use crate::io::failure::FailureKind;
use crate::message::answer::Answer;
use crate::message::framing::Framing;
use crate::message::response::Response;
use crate::pipeline::{self, Subrequest};

/// Time for the rest of a body that only has to be read to keep the connection. It covers a delayed
/// acknowledgement of the head, for which an endpoint's system may wait before it sends the body.
const REST: Duration = Duration::from_millis(50);

/// Collects the head and the start of the body of a response.
#[derive(Debug)]
pub(super) struct CallClient {
    /// The request body. Boxed, because most calls have none.
    feed: Option<Box<Feed>>,
    /// The rest of its framing.
    framing: Framing,
    /// Why the request body broke off.
    failure: Option<FailureKind>,
    /// Bytes of the response body to read.
    most: usize,
    /// Of these, bytes to keep.
    kept: usize,
    /// A client's request needs the response: memory is reserved for it even if there is none, and
    /// its head is enough.
    is_needed: bool,
    /// Status and fields, once a response has begun.
    head: pipeline::SubrequestResponse,
    body: Vec<u8>,
    /// Bytes of the body that were received.
    length: usize,
    state: CollectState,
    memory: Reservation,
}

/// Progress of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CollectState {
    /// It is incomplete.
    Partial,
    /// It is incomplete, but the rest is not needed.
    Enough,
    /// It is complete.
    Whole,
}

impl CallClient {
    pub(super) fn new(subrequest: &Subrequest, feed: Option<Box<Feed>>) -> Self {
        Self {
            framing: feed.as_ref().map_or(Framing::NONE, |feed| feed.framing),
            feed,
            failure: None,
            most: subrequest.most_body,
            kept: if subrequest.needs_body { subrequest.most_body } else { 0 },
            is_needed: subrequest.is_needed(),
            head: pipeline::SubrequestResponse::default(),
            body: Vec::new(),
            length: 0,
            state: CollectState::Partial,
            memory: Reservation::default(),
        }
    }

    /// Whether the response is usable although its end was not received.
    pub(super) fn has_enough(&self) -> bool {
        self.state == CollectState::Enough
    }

    /// Why the request body broke off, if it did.
    pub(super) fn failure(&self) -> Option<FailureKind> {
        self.failure
    }

    /// The response.
    pub(super) fn into_response(self) -> pipeline::SubrequestResponse {
        let Self { head, body, length, state, memory, .. } = self;
        // The end may arrive in the same read as bytes beyond the limit.
        let whole = state == CollectState::Whole && length == body.len();
        pipeline::SubrequestResponse { whole, body: counted(body, memory), ..head }
    }

    /// Reserves memory for the response, which the engine has read already.
    fn hold(&mut self, bytes: usize) -> Result<(), FailureKind> {
        if self.is_needed {
            self.memory.hold(bytes);
            return Ok(());
        }
        if self.memory.try_hold(bytes) { Ok(()) } else { Err(FailureKind::Memory) }
    }

    /// Reads a part of the body.
    fn take(&mut self, response: &mut Response, bytes: &[u8]) -> Result<Passed, FailureKind> {
        let least = self.body.len() + bytes.len().min(self.kept - self.body.len());
        if least > self.body.capacity() {
            let size = least.max(2 * self.body.capacity()).min(self.kept);
            self.hold(self.memory.bytes() + size - self.body.capacity())?;
            self.body.reserve_exact(size - self.body.len());
        }
        let Self { body, length, kept, .. } = self;
        let mut data = 0;
        let taken = response.framing.read(bytes, |piece| {
            data += piece.len();
            let room = *kept - body.len();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
        });
        let taken = taken.map_err(|_| FailureKind::InvalidHead)?;
        *length = length.saturating_add(data);
        Ok(Passed { taken, data })
    }

    /// Ends the response if it is complete, or larger than the limit: the engine then ends the
    /// attempt as if the client had left.
    fn settle(&mut self, response: &Response, passed: Passed) -> Result<Passed, FailureKind> {
        if response.framing.is_done() {
            self.state = CollectState::Whole;
        } else if self.length > self.most {
            self.state = CollectState::Enough;
            return Err(FailureKind::Client);
        }
        Ok(passed)
    }
}

impl Downstream for CallClient {
    fn is_spent(&self) -> bool {
        self.feed.as_ref().is_none_or(|feed| feed.has_ended())
    }

    fn awaits_continue(&self) -> bool {
        false
    }

    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        pass: impl FnOnce(&mut Context<'_>, &[u8], usize),
    ) -> Poll<Result<(), FailureKind>> {
        let Some(feed) = &mut self.feed else { return Poll::Ready(Err(FailureKind::Client)) };
        let next = ready!(feed.poll_next(cx)).inspect_err(|kind| self.failure = Some(*kind))?;
        let (bytes, mut data) = (next.unwrap_or_default(), 0);
        let read = self.framing.read(&bytes, |piece| data += piece.len());
        read.map_err(|_| FailureKind::ClientMalformed)?;
        pass(cx, &bytes, data);
        Poll::Ready(Ok(()))
    }

    /// Ready when the rest of the request body never arrives.
    fn poll_client_closed(&mut self, cx: &mut Context<'_>, _: bool) -> Poll<()> {
        let Some(feed) = &mut self.feed else { return Poll::Pending };
        feed.poll_given_up(cx).map(|kind| self.failure = Some(kind))
    }

    fn has_left(&self) -> bool {
        self.failure.is_some()
    }

    fn interim(&mut self, _: &mut Context<'_>, _: &mut Response) -> Result<(), FailureKind> {
        Ok(())
    }

    fn respond(
        &mut self,
        _: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        // An earlier attempt may have broken off within its response.
        (self.body, self.length) = (Vec::new(), 0);
        self.memory.shrink(0);
        self.hold(response.fields.text().len())?;
        let fields = response.fields.parsed().collect();
        self.head = pipeline::SubrequestResponse {
            status: response.status,
            fields,
            ..pipeline::SubrequestResponse::default()
        };
        self.state = if self.is_needed { CollectState::Enough } else { CollectState::Partial };
        let passed = self.take(response, bytes)?;
        self.settle(response, passed)
    }

    fn pass(
        &mut self,
        _: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        let passed = self.take(response, bytes)?;
        self.settle(response, passed)
    }

    fn end(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Response,
        _: Option<&HeaderMap>,
    ) -> Result<(), FailureKind> {
        self.state = CollectState::Whole;
        Ok(())
    }

    /// The gateway sends itself no answers: a failed call has no response.
    fn answer(&mut self, _: &mut Context<'_>, _: &Answer, _: bool) -> Result<(), FailureKind> {
        Ok(())
    }

    fn poll_flush(
        &mut self,
        _: &mut Context<'_>,
        deadlines: &mut Deadlines,
    ) -> Poll<Result<(), FailureKind>> {
        if self.state == CollectState::Enough {
            // Once it has passed, the engine ends the attempt as if the client had left.
            deadlines.stall.begin(Some(REST));
        }
        Poll::Ready(Ok(()))
    }

    fn sent(&self) -> (u64, u64) {
        (0, self.length as u64)
    }
}
