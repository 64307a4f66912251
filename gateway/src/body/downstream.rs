//! The client's side of one request, as engines and body stages see it.
//!
//! HTTP/1 and HTTP/2 ([`downstream`](crate::downstream)) differ in how heads and bodies travel, and in nothing that
//! concerns endpoints: each fills this interface, and what is known about endpoints is written once, in the engines.
//! A stage that looks at bodies or changes them wraps a client side and is one itself; where no stage is in use,
//! nothing is wrapped.
//!
//! # Bodies
//!
//! Bodies pass in the coding in which they came, so that between two sides of the same framing bytes need not be
//! decoded. [`Head::framing`](crate::message::head::Head) says how the request body is coded: with a length it is plain
//! content, else it comes in chunks, the last of them and trailers included. Of a response body it is
//! [`Response::framing`]; a body of [`Framing::Opaque`](crate::message::framing::Framing::Opaque) is plain content
//! that ends with [`end`](Downstream::end). Whoever needs content reads it with a `Framing` of its own.
//!
//! HTTP/2 has no such codings: between two sides that speak it, bodies pass as pieces of content
//! ([`poll_piece`](Downstream::poll_piece), [`pass_piece`](Downstream::pass_piece)), without a copy.
//!
//! # Waiting
//!
//! Everything is a poll, because the directions of a request wait for one another in ways that no sequence of awaits
//! can say. Nothing may be read from an endpoint before [`poll_flush`](Downstream::poll_flush) is ready, which is all
//! that bounds what a client makes us hold.

use std::task::{Context, Poll};

use bytes::Bytes;
use h2::Reason;
use http::HeaderMap;

use super::pieces::{Decoder, Piece};
use crate::failure::FailureKind;
use crate::io::deadlines::Deadlines;
use crate::message::answer::Answer;
use crate::message::response::Response;

/// The client of a request.
pub(crate) trait Downstream {
    /// Whether the whole request body was given out.
    fn is_spent(&self) -> bool;

    /// Whether the client waits for `100 Continue` before it sends its body.
    fn awaits_continue(&self) -> bool;

    /// Gives the next piece of the request body to `pass`, in its coding, with the number of bytes in it that are
    /// content. The piece before it has been sent by then. Calls `pass` once where it is ready without an error. To be
    /// called while the body is not spent.
    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        pass: impl FnOnce(&mut Context<'_>, &[u8], usize),
    ) -> Poll<Result<(), FailureKind>>;

    /// [`poll_body`](Self::poll_body) free of any coding: content, then its end, which comes once. `decoder` is for a
    /// client side that has nothing but its coding to give.
    fn poll_piece(&mut self, cx: &mut Context<'_>, decoder: &mut Decoder) -> Poll<Result<Piece, FailureKind>>
    where
        Self: Sized,
    {
        decoder.poll(cx, self)
    }

    /// Whether the rest of the request body is here, so that nobody has to wait for it.
    fn has_whole_body(&self) -> bool {
        self.is_spent()
    }

    /// Holds the whole request body from now on, if it has a length, is small and has arrived, so that no stage needs
    /// to wait for it. Returns whether it does; then the body can be [rewound](Self::rewind). To be called before any
    /// of the body was given out.
    fn gather(&mut self, _: &mut Context<'_>) -> bool {
        false
    }

    /// Goes back to the start of the request body, which is then given out again. False where nobody has kept it.
    fn rewind(&mut self) -> bool {
        false
    }

    /// Ready when the client has gone away. `uploading` says that its body is still being read.
    fn poll_client_closed(&mut self, cx: &mut Context<'_>, uploading: bool) -> Poll<()>;

    /// Whether the client has left, as far as the kernel knows, whatever has not been read of what it sent. For when
    /// nothing more is read from it.
    fn has_left(&self) -> bool;

    /// Passes on an interim response. `100 Continue` goes to a client that waits for it, once; others to every client
    /// whose protocol has them.
    fn interim(&mut self, cx: &mut Context<'_>, response: &mut Response) -> Result<(), FailureKind>;

    /// Begins the final response with its head and with what is there of the body. If that cannot be read, the client
    /// gets nothing.
    fn respond(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind>;

    /// Passes on more of the body.
    fn pass(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind>;

    /// [`pass`](Self::pass) for content that need not be copied.
    fn pass_piece(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        content: Bytes,
    ) -> Result<Passed, FailureKind> {
        self.pass(cx, response, &content)
    }

    /// Of so many bytes of a response, how many are to be read or passed on at a time.
    fn portion(&self, most: usize) -> usize {
        most
    }

    /// The endpoint has nothing more for the moment, so that nothing may be held back. Says whether something was, and
    /// now goes out.
    fn pause(&mut self, _: &mut Context<'_>, _: &mut Response) -> Result<bool, FailureKind> {
        Ok(false)
    }

    /// A body without a framing of its own is complete, with these trailers behind it.
    fn end(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        trailers: Option<&HeaderMap>,
    ) -> Result<(), FailureKind>;

    /// The response was a switch to another protocol: from now on what comes is no request body, and its end is that of
    /// the connection.
    fn switched(&mut self) {}

    /// The endpoint has taken its response back for this reason: a client whose protocol has such a thing is told.
    fn taken_back(&mut self, _: Reason) {}

    /// The endpoint takes nothing of the request body, or takes some again.
    fn set_stalled(&mut self, _: bool) {}

    /// Begins an answer of our own; `bare` is one without its body.
    fn answer(&mut self, cx: &mut Context<'_>, answer: &Answer, bare: bool) -> Result<(), FailureKind>;

    /// Ready when there is nothing left that the client has not taken. Lets the client's limit run while there is.
    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        deadlines: &mut Deadlines,
    ) -> Poll<Result<(), FailureKind>>;

    /// Bytes of head and body that went out, and those of the body, free of its coding, among them.
    fn sent(&self) -> (u64, u64);
}

/// What was passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Bytes that belong to the body.
    pub(crate) taken: usize,
    /// Bytes of content in them.
    pub(crate) data: usize,
}
