//! The way of a response through its stages: hold, buffer, substitution and compression, rate.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use http::HeaderMap;

use super::Staged;
use crate::body::compressor::Compressor;
use crate::body::downstream::{Downstream, Passed};
use crate::body::hold::{HeldBody, ResponseHold, ResponseJudge};
use crate::body::response_buffer::ResponseBuffer;
use crate::io::alarm::Alarm;
use crate::io::deadlines::Deadlines;
use crate::io::failure::FailureKind;
use crate::message::response::Response;

impl<D: Downstream> Staged<D> {
    /// Holds the response until the judge has decided.
    pub(crate) fn hold_response(&mut self, judge: Box<dyn ResponseJudge>) {
        self.hold = Some(Box::new(ResponseHold::new(judge)));
    }

    /// Sends the buffered rest of a response whose endpoint is no longer involved.
    ///
    /// # Errors
    /// The client does not accept it.
    pub(crate) async fn deliver(&mut self, alarm: &mut Alarm) -> Result<(), FailureKind> {
        let mut deadlines = Deadlines::default();
        poll_fn(|cx| {
            if let Poll::Ready(flushed) = self.poll_flush(cx, &mut deadlines) {
                return Poll::Ready(flushed);
            }
            let uploading = !self.is_spent();
            self.poll_over(cx, uploading, &mut deadlines, alarm).map(Err)
        })
        .await
    }

    /// Returns whether a part of the response is buffered.
    pub(crate) fn has_undelivered(&self) -> bool {
        self.begun_buffer().is_some() && !self.flushed
    }

    /// The buffer of a response that has begun.
    pub(super) fn begun_buffer(&self) -> Option<&ResponseBuffer> {
        self.response_buffer.as_deref().filter(|_| self.released.is_some())
    }

    /// The buffer, if the next bytes of the response have to go there.
    pub(super) fn entered_buffer(&mut self) -> Option<&mut ResponseBuffer> {
        let buffer = self.response_buffer.as_deref_mut().filter(|_| self.released.is_some())?;
        let flushed = std::mem::replace(&mut self.flushed, false);
        // With a rate, only the buffer divides what an endpoint sent at once.
        let passes = flushed && buffer.is_empty() && self.rate.is_none();
        (!passes).then_some(buffer)
    }

    /// Ready when the client has received what was passed on, and may get more.
    fn poll_sent(
        &mut self,
        cx: &mut Context<'_>,
        deadlines: &mut Deadlines,
    ) -> Poll<Result<(), FailureKind>> {
        ready!(self.inner.poll_flush(cx, deadlines))?;
        if self.compressor.as_mut().is_some_and(Compressor::has_had_its_turn) {
            // Other tasks get their turn.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(rate) = &mut self.rate {
            ready!(rate.poll(cx, self.inner.sent().0));
        }
        Poll::Ready(Ok(()))
    }

    /// Passes on what is buffered, as far as the client accepts it. Ready when it has received all.
    pub(super) fn poll_emptied(
        &mut self,
        cx: &mut Context<'_>,
        deadlines: &mut Deadlines,
    ) -> Poll<Result<(), FailureKind>> {
        loop {
            ready!(self.poll_sent(cx, deadlines))?;
            if self.begun_buffer().is_none_or(ResponseBuffer::is_empty) {
                return Poll::Ready(Ok(()));
            }
            let (Some(buffer), Some(mut response)) = (&mut self.response_buffer, self.released.take()) else {
                return Poll::Ready(Ok(()));
            };
            let sent = self.inner.sent().0;
            let most = self.rate.as_ref().map_or(usize::MAX, |rate| rate.portion(sent, usize::MAX));
            let next = buffer.poll_next(cx, most);
            let passed = match next {
                Poll::Ready(Ok(bytes)) if !bytes.is_empty() => {
                    self.pass_now(cx, &mut response, &bytes).map(|_| ())
                }
                Poll::Ready(Ok(_)) => match buffer.take_end() {
                    Some(trailers) => self.end_now(cx, &mut response, trailers.as_ref()),
                    None => Ok(()),
                },
                Poll::Ready(Err(kind)) => Err(kind),
                Poll::Pending => {
                    self.released = Some(response);
                    return Poll::Pending;
                }
            };
            self.released = Some(response);
            passed?;
        }
    }

    /// A complete response is not delayed.
    pub(super) fn end_rate(&mut self, response: &Response) {
        if let Some(rate) = self.rate.as_mut().filter(|_| response.framing.is_done()) {
            rate.end();
        }
    }

    /// Ready when a response that is held needs more of it, or was passed on.
    pub(super) fn poll_release(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FailureKind>> {
        let Some(hold) = &mut self.hold else { return Poll::Ready(Ok(())) };
        if !hold.has_begun() {
            return Poll::Ready(Ok(()));
        }
        let Some(held) = ready!(hold.poll(cx))? else { return Poll::Ready(Ok(())) };
        self.hold = None;
        let HeldBody { mut response, coded, end, is_whole, .. } = *held;
        let most = coded.len();
        let most = self.rate.as_ref().map_or(most, |rate| rate.portion(self.inner.sent().0, most));
        let (first, rest) = coded.split_at(most);
        self.respond_now(cx, &mut response, first)?;
        if !rest.is_empty() {
            // Only the buffer divides what has arrived.
            let buffer = self.response_buffer.get_or_insert_with(|| Box::new(ResponseBuffer::without_disk()));
            buffer.put(rest, is_whole);
            if let Some(trailers) = end {
                buffer.end(trailers.as_ref());
            }
        } else if let Some(trailers) = end {
            self.end_now(cx, &mut response, trailers.as_ref())?;
        }
        self.released = Some(Box::new(response));
        Poll::Ready(Ok(()))
    }

    /// Calls `with` with the response that was held, if one was, and updates the caller's copy.
    pub(super) fn with_released<T>(
        &mut self,
        response: &mut Response,
        with: impl FnOnce(&mut Self, &mut Response) -> T,
    ) -> T {
        let Some(mut released) = self.released.take() else { return with(self, response) };
        released.is_last = response.is_last;
        let result = with(self, &mut released);
        response.framing = released.framing;
        self.released = Some(released);
        result
    }

    pub(super) fn respond_now(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        if let Some(rate) = &mut self.rate {
            rate.begin();
        }
        let passed = match &mut self.compressor {
            Some(compressor) => compressor.respond(cx, &mut *self.inner, response, bytes),
            None => self.inner.respond(cx, response, bytes),
        };
        self.end_rate(response);
        passed
    }

    pub(super) fn pass_now(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        let passed = match &mut self.compressor {
            Some(compressor) if compressor.is_running() => {
                compressor.pass(cx, &mut *self.inner, response, bytes)
            }
            _ => self.inner.pass(cx, response, bytes),
        };
        self.end_rate(response);
        passed
    }

    pub(super) fn end_now(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        trailers: Option<&HeaderMap>,
    ) -> Result<(), FailureKind> {
        if let Some(rate) = &mut self.rate {
            rate.end();
        }
        match &mut self.compressor {
            Some(compressor) if compressor.is_running() => {
                compressor.end(cx, &mut *self.inner, response, trailers)
            }
            _ => self.inner.end(cx, response, trailers),
        }
    }
}
