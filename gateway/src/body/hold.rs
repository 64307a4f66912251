//! Holds a response back until its judge has decided. The client has received nothing by then, so
//! it can get another answer.

use std::fmt::Debug;
use std::mem;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;

use crate::body::downstream::Passed;
use crate::io::budget::Reservation;
use crate::io::failure::FailureKind;
use crate::message::response::Response;

/// Bytes of a body that a judge sees.
pub(crate) const MOST_JUDGED: usize = 16 * 1024 * 1024;

/// Decides on a response.
pub(crate) trait ResponseJudge: Debug + Send + Sync {
    /// Shows it the head. `ends`: there is no body.
    fn head(&mut self, response: &Response, ends: bool);

    /// Shows it the next part of the content, which it has [requested](Judgement::Wants). `ends`:
    /// the body ends with it.
    fn content(&mut self, content: Bytes, ends: bool);

    /// The response is too large to be held.
    fn exceeded(&mut self) -> Judgement;

    /// Ready when it has decided on what it was shown.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Judgement>;
}

/// A decision on a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It depends on the next part.
    Wants,
    /// The client gets the response.
    Passes,
    /// The client does not get it.
    Refused,
}

/// The stage.
#[derive(Debug)]
pub(crate) struct ResponseHold {
    judge: Box<dyn ResponseJudge>,
    held: HeldBody,
    has_begun: bool,
    judgement: Judgement,
}

/// The part of a response that is held.
#[derive(Debug, Default)]
pub(crate) struct HeldBody {
    /// The head with the framing of its body, as inner client sides get it.
    pub(crate) response: Response,
    /// The body in its coding.
    pub(crate) coded: Vec<u8>,
    /// The trailers of a body that has ended without a framing of its own.
    pub(crate) end: Option<Option<HeaderMap>>,
    /// Content that the judge has not seen.
    unseen: Vec<u8>,
    /// The whole response has arrived.
    pub(crate) is_whole: bool,
    /// The judge has seen the end.
    has_shown_end: bool,
    share: Reservation,
}

impl ResponseHold {
    pub(crate) fn new(judge: Box<dyn ResponseJudge>) -> Self {
        Self { judge, held: HeldBody::default(), has_begun: false, judgement: Judgement::Wants }
    }

    /// Begins to hold a response. The caller's copy keeps what tells the end of the body.
    ///
    /// # Errors
    /// The bytes are no body. Nothing is held then, because another endpoint may be tried.
    pub(crate) fn respond(&mut self, response: &mut Response, bytes: &[u8]) -> Result<Passed, FailureKind> {
        let framing = response.framing;
        self.held = HeldBody::default();
        let passed = self.pass(response, bytes)?;
        self.held.response = response.take_head();
        self.held.response.framing = framing;
        self.has_begun = true;
        self.held.has_shown_end = framing.is_done();
        self.judge.head(&self.held.response, framing.is_done());
        Ok(passed)
    }

    /// Returns whether a response is held.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Holds more of the body.
    pub(crate) fn pass(&mut self, response: &mut Response, bytes: &[u8]) -> Result<Passed, FailureKind> {
        let held = &mut self.held;
        let before = held.unseen.len();
        let taken = response.framing.read(bytes, |piece| held.unseen.extend_from_slice(piece));
        let taken = taken.map_err(|_| FailureKind::InvalidHead)?;
        held.coded.extend_from_slice(&bytes[..taken]);
        held.is_whole = response.framing.is_done();
        let size = held.coded.len() + held.unseen.len();
        if self.judgement == Judgement::Wants
            && (held.coded.len() > MOST_JUDGED || !held.share.try_hold(size))
        {
            self.judgement = self.judge.exceeded();
        }
        Ok(Passed { taken, data: held.unseen.len() - before })
    }

    /// Ends a body without a framing of its own.
    pub(crate) fn end(&mut self, trailers: Option<&HeaderMap>) {
        self.held.end = Some(trailers.cloned());
        self.held.is_whole = true;
    }

    /// Ready when more of the response is needed, or with what was held, which now goes to the
    /// client.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Box<HeldBody>>, FailureKind>> {
        loop {
            match self.judgement {
                Judgement::Passes => {
                    self.held.share.shrink(self.held.coded.len());
                    return Poll::Ready(Ok(Some(Box::new(mem::take(&mut self.held)))));
                }
                Judgement::Refused => return Poll::Ready(Err(FailureKind::ResponseRefused)),
                Judgement::Wants => self.judgement = ready!(self.judge.poll(cx)),
            }
            let HeldBody { unseen, is_whole, has_shown_end, .. } = &mut self.held;
            match self.judgement {
                // It has seen everything.
                Judgement::Wants if *has_shown_end => self.judgement = Judgement::Passes,
                Judgement::Wants if unseen.is_empty() && !*is_whole => return Poll::Ready(Ok(None)),
                Judgement::Wants => {
                    *has_shown_end = *is_whole;
                    self.judge.content(mem::take(unseen).into(), *is_whole);
                }
                Judgement::Passes | Judgement::Refused => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
