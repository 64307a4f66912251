//! One attempt: a request and its response over one connection or stream, both directions at once.
//!
//! Written as polls, because the directions wait for each other in ways that a sequence of awaits
//! cannot express: a response may arrive before its request is complete, either side may leave at
//! any time, and neither side may be read faster than the other one accepts.

use std::task::{Context, Poll, ready};

use super::attempt_io::AttemptIo;
use super::download::Receiving;
use crate::body::downstream::Downstream;
use crate::io::scratch;
use crate::pipeline::{FailureKind, Next, Originator};

/// An attempt over the endpoint's protocol.
pub(super) trait Relay<'r> {
    /// The client side.
    type Downstream: Downstream + 'r;
    /// The origin of the request.
    type Originator: Originator + 'r;

    /// The parts of the attempt that do not depend on the protocol.
    fn attempt_io(&mut self) -> &mut AttemptIo<'r, Self::Downstream, Self::Originator>;

    /// Whether a part of the request is unsent.
    fn is_sending(&self) -> bool;

    /// Sends as much of the request as possible.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FailureKind>>;

    /// Forwards as much of the response as possible. Ready when it is complete, or with another
    /// step.
    fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<NextOf<'r, Self>>, FailureKind>>;

    /// Reports a failure of the attempt to the originator.
    fn failed(&mut self, kind: FailureKind) -> NextOf<'r, Self>;

    /// Returns whether the attempt goes on although a deadline has passed, which was begun anew.
    fn outlives(&mut self, _passed: FailureKind) -> bool {
        false
    }

    /// Continues as far as possible. Ready when the response is relayed, or with another step.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<NextOf<'r, Self>>> {
        if self.is_sending()
            && let Poll::Ready(Err(kind)) = self.poll_request(cx)
        {
            return Poll::Ready(Some(self.failed(kind)));
        }
        if let Poll::Ready(done) = self.poll_response(cx) {
            return Poll::Ready(done.unwrap_or_else(|kind| Some(self.failed(kind))));
        }
        let sending = self.is_sending();
        loop {
            let kind = ready!(self.attempt_io().poll_over(cx, sending));
            if !self.outlives(kind) {
                return Poll::Ready(Some(self.failed(kind)));
            }
        }
    }
}

/// An attempt that reads its response from a connection of its own.
pub(super) trait SocketRelay<'r>: Relay<'r> {
    /// Reads from the endpoint once, into `buffer`, and forwards the bytes. Returns the next step
    /// if the bytes end the attempt otherwise than by completing the response.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<Result<Option<NextOf<'r, Self>>, FailureKind>>;

    /// Returns whether the endpoint has switched protocols, and the client's response has begun.
    fn has_switched(&self) -> bool {
        false
    }

    /// Reads and forwards as much as the client accepts and memory permits. Ready when the response
    /// is complete, the endpoint has switched protocols, or with another step.
    fn poll_socket(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<NextOf<'r, Self>>, FailureKind>> {
        loop {
            let AttemptIo { downstream, deadlines, download, .. } = self.attempt_io();
            ready!(downstream.poll_accept(cx, deadlines))?;
            if download.state == Receiving::Done {
                return Poll::Ready(Ok(None));
            }
            ready!(self.attempt_io().poll_room(cx));
            match scratch::read(|buffer| self.poll_read(cx, buffer))? {
                Poll::Ready(Some(next)) => return Poll::Ready(Ok(Some(next))),
                Poll::Ready(None) if self.has_switched() => return Poll::Ready(Ok(None)),
                Poll::Ready(None) => {}
                Poll::Pending if self.attempt_io().pause(cx)? => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// The step that follows an attempt.
pub(super) type NextOf<'r, R> = Next<<<R as Relay<'r>>::Originator as Originator>::Answer>;
