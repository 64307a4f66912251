//! A client side with body stages around it.
//!
//! One type holds all stages, each optional, in the [order](super::plan::ORDER) of the plan. So an
//! engine has two kinds of client side, with and without stages, and not one for each combination.

mod response;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, HeaderValue, TRAILER, TRANSFER_ENCODING};

use super::buffer::RequestBuffer;
use super::compressor::Compressor;
use super::disk::Disk;
use super::hold::ResponseHold;
use super::plan::BodyPlan;
use super::rate::ResponseRate;
use super::response_buffer::ResponseBuffer;
use super::tee::Tee;
use crate::body::downstream::{Downstream, Passed, poll_decoded};
use crate::body::pieces::{Decoder, Piece};
use crate::io::alarm::Alarm;
use crate::io::deadlines::Deadlines;
use crate::io::failure::FailureKind;
use crate::message::answer::Answer;
use crate::message::field_list::FieldList;
use crate::message::fields::FieldsMut;
use crate::message::framing::Framing;
use crate::message::head::Head;
use crate::message::response::Response;

/// A client side with stages.
#[derive(Debug)]
pub(crate) struct Staged<D> {
    inner: Box<D>,
    /// Bytes that may still follow in the request body.
    left: Option<u64>,
    buffer: Option<RequestBuffer>,
    tee: Option<Tee>,
    hold: Option<Box<ResponseHold>>,
    /// The response that was held or may be buffered. The caller's copy has only its framing.
    released: Option<Box<Response>>,
    response_buffer: Option<Box<ResponseBuffer>>,
    /// The client has received all output so far.
    flushed: bool,
    compressor: Option<Compressor>,
    rate: Option<ResponseRate>,
}

impl<D: Downstream> Staged<D> {
    /// Creates the stages of `plan`. `framing` is that of the request body.
    pub(crate) fn new(inner: Box<D>, plan: BodyPlan, framing: Framing, disk: &Arc<Disk>) -> Self {
        let BodyPlan { limit, buffer, response_buffering, substitution, compression, rate, .. } = plan;
        let (is_head, keeps_fields) = (plan.is_head, plan.keeps_fields);
        let changes_response = substitution.is_some() || compression.is_some();
        Self {
            inner,
            left: limit,
            buffer: buffer.map(|memory| RequestBuffer::new(framing, limit, memory, disk.clone())),
            tee: None,
            hold: None,
            released: None,
            response_buffer: response_buffering
                .map(|settings| Box::new(ResponseBuffer::new(&settings, disk.clone()))),
            flushed: false,
            compressor: changes_response
                .then(|| Compressor::new(substitution, compression, is_head, keeps_fields)),
            rate: rate.map(|(bytes, after)| ResponseRate::new(bytes, after)),
        }
    }

    /// Buffers the whole request body, if the plan has a buffer, and sets its length in the head.
    /// `time_limit` is the time limit for each piece.
    ///
    /// # Errors
    /// The body does not arrive, or cannot be kept.
    pub(crate) async fn collect(
        &mut self,
        head: &mut Head,
        alarm: &mut Alarm,
        time_limit: Duration,
    ) -> Result<(), FailureKind> {
        let Some(buffer) = &mut self.buffer else { return Ok(()) };
        let mut deadlines = Deadlines::default();
        poll_fn(|cx| match buffer.poll_collect(cx, &mut *self.inner, &mut deadlines, time_limit) {
            Poll::Pending => deadlines.poll(cx, alarm).map(Err),
            ready => ready,
        })
        .await?;
        head.framing = buffer.coding();
        if let Framing::Length(length) = head.framing {
            head.fields.remove(&TRANSFER_ENCODING);
            head.fields.remove(&TRAILER);
            head.fields.set(&CONTENT_LENGTH, &HeaderValue::from(length));
        }
        Ok(())
    }

    /// The whole request body, if it was buffered and is in memory.
    pub(crate) fn body_in_memory(&self) -> Option<&[u8]> {
        self.buffer.as_ref().and_then(RequestBuffer::content)
    }

    /// Copies the request body from now on, as the engine gets it.
    pub(crate) fn copy_to(&mut self, tee: Tee) {
        self.tee = Some(tee);
    }

    /// Copies the rest of a body that has arrived and that the engine did not read, without a wait.
    pub(crate) fn finish_copy(&mut self) {
        if self.tee.is_none() || !self.has_whole_body() {
            return;
        }
        let mut cx = Context::from_waker(Waker::noop());
        while !self.is_spent() {
            match self.poll_body(&mut cx, |_, _, _| {}) {
                Poll::Ready(Ok(())) => {}
                // The rest is on disk. The client has its response and does not wait for it.
                Poll::Ready(Err(_)) | Poll::Pending => return,
            }
        }
    }

    /// The fields of the response that the client got, if a stage may have changed them and the
    /// plan keeps them.
    pub(crate) fn sent_fields(&self) -> Option<&FieldList> {
        self.compressor.as_ref()?.sent_fields()
    }

    /// The client side without stages.
    pub(crate) fn into_inner(self) -> Box<D> {
        self.inner
    }

    /// Bytes of the request body that were buffered before the engine started.
    pub(crate) fn collected(&self) -> u64 {
        self.buffer.as_ref().map_or(0, RequestBuffer::length)
    }

    /// Gives the next piece of the request body in its coding, past limit and buffer.
    fn poll_bounded(
        &mut self,
        cx: &mut Context<'_>,
        pass: impl FnOnce(&mut Context<'_>, &[u8], usize),
    ) -> Poll<Result<(), FailureKind>> {
        if let Some(buffer) = &mut self.buffer {
            return buffer.poll_give(cx, pass);
        }
        let Some(left) = &mut self.left else { return self.inner.poll_body(cx, pass) };
        let mut too_large = false;
        let read = self.inner.poll_body(cx, |cx, bytes, data| match left.checked_sub(data as u64) {
            Some(rest) => {
                *left = rest;
                pass(cx, bytes, data);
            }
            None => too_large = true,
        });
        ready!(read)?;
        Poll::Ready(if too_large { Err(FailureKind::BodyTooLarge) } else { Ok(()) })
    }
}

impl<D: Downstream> Downstream for Staged<D> {
    fn is_spent(&self) -> bool {
        match &self.buffer {
            Some(buffer) => buffer.is_given(),
            None => self.inner.is_spent(),
        }
    }

    fn has_whole_body(&self) -> bool {
        self.buffer.is_some() || self.inner.has_whole_body()
    }

    fn awaits_continue(&self) -> bool {
        self.inner.awaits_continue()
    }

    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        pass: impl FnOnce(&mut Context<'_>, &[u8], usize),
    ) -> Poll<Result<(), FailureKind>> {
        let Some(mut tee) = self.tee.take() else { return self.poll_bounded(cx, pass) };
        let read = self.poll_bounded(cx, |cx, bytes, data| {
            tee.copy(bytes);
            pass(cx, bytes, data);
        });
        match read {
            // A request that the endpoint does not get whole is not copied.
            Poll::Ready(Err(_)) => {}
            _ if self.is_spent() => tee.end(),
            _ => self.tee = Some(tee),
        }
        read
    }

    /// Without transfer coding, unless a stage reads the coding.
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        decoder: &mut Decoder,
    ) -> Poll<Result<Piece, FailureKind>> {
        if self.buffer.is_some() || self.tee.is_some() {
            return poll_decoded(self, cx, decoder);
        }
        let piece = ready!(self.inner.poll_piece(cx, decoder))?;
        if let (Some(left), Piece::Data { content, .. }) = (&mut self.left, &piece) {
            *left = left.checked_sub(content.len() as u64).ok_or(FailureKind::BodyTooLarge)?;
        }
        Poll::Ready(Ok(piece))
    }

    fn rewind(&mut self) -> bool {
        let rewinds = match &mut self.buffer {
            Some(buffer) => {
                buffer.rewind();
                true
            }
            None => self.inner.rewind(),
        };
        if let Some(tee) = self.tee.as_mut().filter(|_| rewinds) {
            tee.rewind();
        }
        rewinds
    }

    fn poll_client_closed(&mut self, cx: &mut Context<'_>, uploading: bool) -> Poll<()> {
        self.inner.poll_client_closed(cx, uploading && self.buffer.is_none())
    }

    fn has_left(&self) -> bool {
        self.inner.has_left()
    }

    fn interim(&mut self, cx: &mut Context<'_>, response: &mut Response) -> Result<(), FailureKind> {
        self.inner.interim(cx, response)
    }

    fn respond(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        if response.is_unbuffered {
            self.response_buffer = None;
        }
        match &mut self.hold {
            // What follows is another protocol.
            Some(_) if response.switches() => self.hold = None,
            Some(hold) => return hold.respond(response, bytes),
            None => {}
        }
        let passed = self.respond_now(cx, response, bytes)?;
        if self.response_buffer.is_some() && !response.switches() {
            self.released = Some(Box::new(response.take_head()));
        }
        Ok(passed)
    }

    fn pass(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        if let Some(hold) = &mut self.hold {
            return hold.pass(response, bytes);
        }
        if let Some(buffer) = self.entered_buffer() {
            return buffer.pass(response, bytes);
        }
        self.with_released(response, |this, response| this.pass_now(cx, response, bytes))
    }

    fn pass_piece(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        content: Bytes,
    ) -> Result<Passed, FailureKind> {
        let is_kept = self.hold.is_some() || self.begun_buffer().is_some();
        if is_kept || self.compressor.as_ref().is_some_and(Compressor::is_running) {
            return self.pass(cx, response, &content);
        }
        self.with_released(response, |this, response| {
            let passed = this.inner.pass_piece(cx, response, content);
            this.end_rate(response);
            passed
        })
    }

    fn portion(&self, most: usize) -> usize {
        match self.rate.as_ref().filter(|_| self.begun_buffer().is_none()) {
            Some(rate) => rate.portion(self.inner.sent().0, most),
            None => most,
        }
    }

    fn pause(&mut self, cx: &mut Context<'_>, response: &mut Response) -> Result<bool, FailureKind> {
        if self.hold.is_some() || self.begun_buffer().is_some_and(|buffer| !buffer.is_empty()) {
            return Ok(false);
        }
        self.with_released(response, |this, response| match &mut this.compressor {
            Some(compressor) => compressor.pause(cx, &mut *this.inner, response),
            None => this.inner.pause(cx, response),
        })
    }

    fn end(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        trailers: Option<&HeaderMap>,
    ) -> Result<(), FailureKind> {
        if let Some(hold) = &mut self.hold {
            hold.end(trailers);
            return Ok(());
        }
        if let Some(buffer) = self.entered_buffer() {
            buffer.end(trailers);
            return Ok(());
        }
        self.with_released(response, |this, response| this.end_now(cx, response, trailers))
    }

    fn switched(&mut self) {
        // The bytes that follow are of another protocol.
        self.tee = None;
        self.response_buffer = None;
        self.inner.switched();
    }

    fn taken_back(&mut self, reason: Reason) {
        self.inner.taken_back(reason);
    }

    fn set_stalled(&mut self, stalled: bool) {
        self.inner.set_stalled(stalled && self.buffer.is_none());
    }

    fn answer(&mut self, cx: &mut Context<'_>, answer: &Answer, bare: bool) -> Result<(), FailureKind> {
        self.inner.answer(cx, answer, bare)
    }

    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        deadlines: &mut Deadlines,
    ) -> Poll<Result<(), FailureKind>> {
        ready!(self.poll_release(cx))?;
        let emptied = self.poll_emptied(cx, deadlines);
        self.flushed = emptied.is_ready();
        emptied
    }

    fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
        deadlines: &mut Deadlines,
    ) -> Poll<Result<(), FailureKind>> {
        if let Poll::Ready(flushed) = self.poll_flush(cx, deadlines) {
            return Poll::Ready(flushed);
        }
        let begun = self.released.is_some();
        match self.response_buffer.as_deref_mut().filter(|_| begun) {
            Some(buffer) => buffer.poll_room(cx),
            None => Poll::Pending,
        }
    }

    fn sent(&self) -> (u64, u64) {
        self.inner.sent()
    }
}

#[cfg(test)]
mod tests;
