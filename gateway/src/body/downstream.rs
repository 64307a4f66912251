//! The client side of one request, as engines and body stages use it.
//!
//! HTTP/1 and HTTP/2 ([`downstream`](crate::downstream)) differ in how heads and bodies are sent,
//! but not in anything that concerns endpoints. Each implements this interface, so the code for
//! endpoints is written once, in the engines. A stage on bodies wraps a client side and implements
//! the same interface. Without stages nothing is wrapped.
//!
//! # Bodies
//!
//! Bodies pass in the coding in which they arrived, so bytes between two sides with the same
//! framing are not decoded. [`Head::framing`](crate::message::head::Head) describes the request
//! body: plain content with a length, or chunks including the last one and the trailers.
//! [`Response::framing`] describes the response body. A body of
//! [`Framing::Opaque`](crate::message::framing::Framing::Opaque) is plain content that ends with
//! [`end`](Downstream::end). Code that needs the content decodes it with its own `Framing`.
//!
//! HTTP/2 has no such codings. Between two HTTP/2 sides bodies pass as pieces of content
//! ([`poll_piece`](Downstream::poll_piece), [`pass_piece`](Downstream::pass_piece)), without a
//! copy.
//!
//! # Waiting
//!
//! Every operation is a poll function, because the two directions of a request depend on each other
//! in ways that a sequence of awaits cannot express. Nothing may be read from an endpoint before
//! [`poll_accept`](Downstream::poll_accept) is ready: this alone bounds the memory that a slow
//! client can occupy.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::Reason;
use http::HeaderMap;

use super::pieces::{Decoder, Piece};
use crate::io::alarm::Alarm;
use crate::io::deadlines::Deadlines;
use crate::io::failure::FailureKind;
use crate::message::answer::Answer;
use crate::message::response::Response;

/// The client side of a request.
pub(crate) trait Downstream {
    /// Returns whether the whole request body was passed on.
    fn is_spent(&self) -> bool;

    /// Returns whether the client waits for `100 Continue` before it sends its body.
    fn awaits_continue(&self) -> bool;

    /// Passes the next piece of the request body to `pass`: the encoded bytes and the number of
    /// content bytes in them. The previous piece has been sent by then. `pass` is called exactly
    /// once if the result is ready without an error. Must not be called once
    /// [`is_spent`](Self::is_spent) is true.
    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        pass: impl FnOnce(&mut Context<'_>, &[u8], usize),
    ) -> Poll<Result<(), FailureKind>>;

    /// Like [`poll_body`](Self::poll_body), but without the coding: pieces of content, then the
    /// end, exactly once. `decoder` is used by client sides that hold only the coded body.
    fn poll_piece(&mut self, cx: &mut Context<'_>, decoder: &mut Decoder) -> Poll<Result<Piece, FailureKind>>
    where
        Self: Sized,
    {
        poll_decoded(self, cx, decoder)
    }

    /// Returns whether the rest of the request body has arrived, so that reading it never waits.
    fn has_whole_body(&self) -> bool {
        self.is_spent()
    }

    /// Holds the whole request body in memory if it has a length, is small and has arrived, so that
    /// no stage has to wait for it. Returns whether it does; the body can then be
    /// [rewound](Self::rewind). Must be called before any of the body was passed on.
    fn gather(&mut self, _: &mut Context<'_>) -> bool {
        false
    }

    /// Restarts the request body from its beginning. Returns false if it was not kept.
    fn rewind(&mut self) -> bool {
        false
    }

    /// Ready when the client has disconnected. `uploading`: its body is still being read.
    fn poll_client_closed(&mut self, cx: &mut Context<'_>, uploading: bool) -> Poll<()>;

    /// Ready when a response in progress must end: the client has disconnected, or a deadline has
    /// passed. `uploading` as in [`poll_client_closed`](Self::poll_client_closed).
    fn poll_over(
        &mut self,
        cx: &mut Context<'_>,
        uploading: bool,
        deadlines: &mut Deadlines,
        alarm: &mut Alarm,
    ) -> Poll<FailureKind> {
        match self.poll_client_closed(cx, uploading) {
            Poll::Ready(()) => Poll::Ready(FailureKind::Client),
            Poll::Pending => deadlines.poll(cx, alarm),
        }
    }

    /// Returns whether the kernel has reported that the client disconnected, even if received bytes
    /// are still unread. For connections from which nothing more is read.
    fn has_left(&self) -> bool;

    /// Sends an interim response. `100 Continue` is sent once, and only to a client that waits for
    /// it; others are sent to every client whose protocol supports them.
    fn interim(&mut self, cx: &mut Context<'_>, response: &mut Response) -> Result<(), FailureKind>;

    /// Starts the final response with its head and the first bytes of its body. If these are
    /// malformed, nothing is sent to the client.
    fn respond(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind>;

    /// Sends more of the body.
    fn pass(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind>;

    /// Like [`pass`](Self::pass), for content that need not be copied.
    fn pass_piece(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        content: Bytes,
    ) -> Result<Passed, FailureKind> {
        self.pass(cx, response, &content)
    }

    /// Returns how many of at most `most` response bytes to read or send at a time.
    fn portion(&self, most: usize) -> usize {
        most
    }

    /// Called when the endpoint has sent nothing more for now, so that no output is held back.
    /// Returns whether held-back output was sent.
    fn pause(&mut self, _: &mut Context<'_>, _: &mut Response) -> Result<bool, FailureKind> {
        Ok(false)
    }

    /// Ends a body without a framing of its own, with optional trailers.
    fn end(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        trailers: Option<&HeaderMap>,
    ) -> Result<(), FailureKind>;

    /// The response switched protocols: bytes that follow are not a request body, and end with the
    /// connection.
    fn switched(&mut self) {}

    /// The endpoint reset its response for this reason. Clients whose protocol has resets receive
    /// it.
    fn taken_back(&mut self, _: Reason) {}

    /// The endpoint has stopped (true) or resumed (false) reading the request body.
    fn set_stalled(&mut self, _: bool) {}

    /// Starts a response that Sluice generates. `bare` omits its body, as for `HEAD`.
    fn answer(&mut self, cx: &mut Context<'_>, answer: &Answer, bare: bool) -> Result<(), FailureKind>;

    /// Ready when the client has received all output so far. The write deadline runs while it has
    /// not.
    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        deadlines: &mut Deadlines,
    ) -> Poll<Result<(), FailureKind>>;

    /// Ready when more of the response may be passed on: when the client has received all output so
    /// far, or a stage keeps the rest for it.
    fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
        deadlines: &mut Deadlines,
    ) -> Poll<Result<(), FailureKind>> {
        self.poll_flush(cx, deadlines)
    }

    /// Returns the bytes of head and body that were sent, and the content bytes among them.
    fn sent(&self) -> (u64, u64);
}

/// The client side of a request, without stages.
pub(crate) trait ClientSide: Downstream {
    /// Ends the request body, which no endpoint gets. The connection handles the unread body as
    /// that of a request that was answered early. Must be called before any of it was passed on.
    fn withhold_body(&mut self);

    /// Closes a connection of HTTP/1 after the response.
    fn close_after_response(&mut self);
}

/// Reads the next piece of the request body through the coded bytes.
pub(crate) fn poll_decoded(
    from: &mut impl Downstream,
    cx: &mut Context<'_>,
    decoder: &mut Decoder,
) -> Poll<Result<Piece, FailureKind>> {
    loop {
        if decoder.is_done() || from.is_spent() {
            return Poll::Ready(Ok(decoder.end()));
        }
        let mut decoded = Ok(None);
        ready!(from.poll_body(cx, |_, bytes, data| decoded = decoder.decode(bytes, data)))?;
        if let Some(piece) = decoded? {
            return Poll::Ready(Ok(piece));
        }
    }
}

/// The result of passing on a piece of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Encoded bytes consumed, all of which belong to the body.
    pub(crate) taken: usize,
    /// Content bytes among them.
    pub(crate) data: usize,
}
