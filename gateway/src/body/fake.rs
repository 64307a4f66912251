//! A client side for tests of stages: sends configured pieces and records what it receives.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use http::{HeaderMap, StatusCode};

use crate::body::downstream::{Downstream, Passed};
use crate::io::deadlines::Deadlines;
use crate::io::failure::FailureKind;
use crate::message::answer::Answer;
use crate::message::framing::Framing;
use crate::message::response::Response;

/// A client side with a fixed request body.
#[derive(Debug)]
pub(crate) struct Fake {
    framing: Framing,
    /// Pieces of its body, in their coding. An empty piece makes one poll pending.
    pieces: VecDeque<Vec<u8>>,
    pub(crate) waits: bool,
    pub(crate) interims: Vec<StatusCode>,
    /// The response head received.
    pub(crate) head: String,
    /// The response body received.
    pub(crate) body: Vec<u8>,
    /// The last piece was marked as the last.
    pub(crate) has_last: bool,
    pub(crate) ended: bool,
    /// Number of `poll_flush` calls.
    pub(crate) flushes: usize,
}

impl Fake {
    pub(crate) fn new(framing: Framing, pieces: &[&[u8]]) -> Self {
        Self {
            framing,
            pieces: pieces.iter().map(|piece| piece.to_vec()).collect(),
            waits: false,
            interims: Vec::new(),
            head: String::new(),
            body: Vec::new(),
            has_last: false,
            ended: false,
            flushes: 0,
        }
    }

    /// Returns a client without a request body.
    pub(crate) fn silent() -> Self {
        Self::new(Framing::NONE, &[])
    }
}

impl Downstream for Fake {
    fn is_spent(&self) -> bool {
        self.framing.is_done()
    }

    fn awaits_continue(&self) -> bool {
        self.waits
    }

    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        pass: impl FnOnce(&mut Context<'_>, &[u8], usize),
    ) -> Poll<Result<(), FailureKind>> {
        match self.pieces.pop_front() {
            None => Poll::Ready(Err(FailureKind::Client)),
            Some(pause) if pause.is_empty() => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Some(piece) => {
                let mut data = 0;
                self.framing.read(&piece, |bytes| data += bytes.len()).unwrap();
                pass(cx, &piece, data);
                Poll::Ready(Ok(()))
            }
        }
    }

    fn poll_client_closed(&mut self, _: &mut Context<'_>, _: bool) -> Poll<()> {
        Poll::Pending
    }

    fn has_left(&self) -> bool {
        false
    }

    fn interim(&mut self, _: &mut Context<'_>, response: &mut Response) -> Result<(), FailureKind> {
        self.waits = false;
        self.interims.push(response.status);
        Ok(())
    }

    fn respond(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        response.deliver(false);
        let mut head = Vec::new();
        response.write(&mut head, true);
        self.head = String::from_utf8(head).unwrap();
        self.pass(cx, response, bytes)
    }

    fn pass(
        &mut self,
        _: &mut Context<'_>,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        assert!(!self.has_last, "nothing comes behind the last piece");
        self.has_last = response.is_last;
        let mut data = 0;
        let taken = response.framing.read(bytes, |piece| {
            data += piece.len();
            self.body.extend_from_slice(piece);
        });
        Ok(Passed { taken: taken.map_err(|_| FailureKind::InvalidHead)?, data })
    }

    fn end(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Response,
        _: Option<&HeaderMap>,
    ) -> Result<(), FailureKind> {
        assert!(!std::mem::replace(&mut self.ended, true), "a body ends once");
        Ok(())
    }

    fn answer(&mut self, _: &mut Context<'_>, _: &Answer, _: bool) -> Result<(), FailureKind> {
        unreachable!("no stage answers")
    }

    fn poll_flush(&mut self, _: &mut Context<'_>, _: &mut Deadlines) -> Poll<Result<(), FailureKind>> {
        self.flushes += 1;
        Poll::Ready(Ok(()))
    }

    fn sent(&self) -> (u64, u64) {
        (self.body.len() as u64, self.body.len() as u64)
    }
}
