//! The client's side of an exchange, as a try sees it. HTTP/1 and HTTP/2 differ in how bodies and heads travel,
//! and in nothing that concerns endpoints: what is known about those is written once, in `relay`.

use std::task::{Context, Poll};

use super::upload::Upload;
use crate::io::limits::Limits;
use crate::message::response::Response;
use crate::pipeline::{Answer, FailureKind};

/// The client of an exchange.
pub(super) trait Near {
    /// Whether the whole request body was given out.
    fn is_spent(&self) -> bool;

    /// Gives the next piece of the request body to `pass`, in the coding that the endpoint gets, with the number
    /// of bytes in it that are content. The piece before it has been sent by then.
    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        pass: impl FnOnce(&mut Context<'_>, &[u8], usize),
    ) -> Poll<Result<(), FailureKind>>;

    /// Ready when the client has gone away. `uploading` says that its body is still being read.
    fn poll_gone(&mut self, cx: &mut Context<'_>, uploading: bool) -> Poll<()>;

    /// Whether the client has left, as far as the kernel knows, whatever has not been read of what it sent. For when
    /// nothing more is read from it.
    fn has_left(&self) -> bool;

    /// Passes on an interim response.
    fn interim(&mut self, cx: &mut Context<'_>, response: &mut Response) -> Result<(), FailureKind>;

    /// Begins the final response with its head and with what is there of the body. If that cannot be read, the client
    /// gets nothing.
    fn respond(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
        upload: &Upload,
    ) -> Result<Passed, FailureKind>;

    /// Passes on more of the body.
    fn pass(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind>;

    /// The body is complete, because the endpoint's connection ended.
    fn end(&mut self, cx: &mut Context<'_>, response: &Response) -> Result<(), FailureKind>;

    /// The endpoint takes nothing of the body, or takes some again.
    fn set_stalled(&mut self, _: bool) {}

    /// Begins an answer of our own; `bare` is one without its body.
    fn answer(
        &mut self,
        cx: &mut Context<'_>,
        answer: &Answer,
        bare: bool,
        upload: &Upload,
    ) -> Result<(), FailureKind>;

    /// Ready when there is nothing left that the client has not taken.
    fn poll_flush(&mut self, cx: &mut Context<'_>, limits: &mut Limits) -> Poll<Result<(), FailureKind>>;

    /// Bytes of head and body that went out, and those of the body, free of its coding, among them.
    fn sent(&self) -> (u64, u64);
}

/// What was passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    /// Bytes that belong to the body.
    pub(super) taken: usize,
    /// Bytes of content in them.
    pub(super) data: usize,
}
