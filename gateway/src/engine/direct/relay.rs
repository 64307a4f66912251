//! One attempt: a request and its response over one connection or stream, both directions at once.
//!
//! Written as polls, because the directions wait for each other in ways that a sequence of awaits
//! cannot express: a response may arrive before its request is complete, either side may leave at
//! any time, and neither side may be read faster than the other one accepts.

use std::task::{Context, Poll};

use super::attempt_io::AttemptIo;
use crate::body::downstream::Downstream;
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
        self.attempt_io().poll_over(cx, sending).map(|kind| Some(self.failed(kind)))
    }
}

/// The step that follows an attempt.
pub(super) type NextOf<'r, R> = Next<<<R as Relay<'r>>::Originator as Originator>::Answer>;
