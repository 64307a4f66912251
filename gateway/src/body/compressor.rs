//! The compression stage of one response.

use std::sync::Arc;
use std::task::Context;

use http::HeaderMap;

use super::coding::Coding;
use super::compression::{self, Choice, ClientEncodings, CompressionRules};
use super::encoder::Encoder;
use crate::body::downstream::{Downstream, Passed};
use crate::io::budget::Reservation;
use crate::io::failure::FailureKind;
use crate::message::framing::Framing;
use crate::message::response::Response;

/// Bytes that one response may compress before other tasks of the worker run: one read.
const TURN: usize = 64 * 1024;
/// Bytes of output buffer that are kept between pieces.
const KEPT: usize = 16 * 1024;

/// The compression of one response.
#[derive(Debug)]
pub(crate) struct Compressor {
    rules: Arc<CompressionRules>,
    wanted: ClientEncodings,
    running: Option<Running>,
    /// Bytes compressed since the task last yielded.
    worked: usize,
}

struct Running {
    encoder: Encoder,
    /// The encoder holds input for which no output was produced yet.
    held_back: bool,
    _share: Reservation,
}

impl Compressor {
    pub(crate) fn new(rules: Arc<CompressionRules>, wanted: ClientEncodings) -> Self {
        Self { rules, wanted, running: None, worked: 0 }
    }

    /// Returns whether a response is being compressed.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Returns whether the task should yield to others, and resets the count.
    pub(crate) fn has_had_its_turn(&mut self) -> bool {
        let over = self.worked >= TURN;
        if over {
            self.worked = 0;
        }
        over
    }

    /// Starts a response and decides whether to compress it.
    pub(crate) fn respond(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut impl Downstream,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        self.running = None;
        let choice = self.rules.choose(self.wanted, response);
        if choice != Choice::Never {
            compression::vary(&mut response.fields);
        }
        if let Choice::Compress(coding, level) = choice {
            self.running = Running::new(coding, level, response.framing.left());
        }
        if self.running.is_none() {
            return to.respond(cx, response, bytes);
        }
        let passed = self.read(response, bytes)?;
        let Some(running) = &mut self.running else { return Ok(passed) };
        compression::dress(&mut response.fields, running.encoder.coding());
        let whole = response.framing.is_done();
        plain(response, whole, |response| to.respond(cx, response, running.encoder.out()))?;
        running.encoder.out().clear();
        if whole {
            self.running = None;
            to.end(cx, response, None)?;
        }
        Ok(passed)
    }

    /// Passes on more of the body.
    pub(crate) fn pass(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut impl Downstream,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        let passed = self.read(response, bytes)?;
        self.send(cx, to, response, response.framing.is_done())?;
        if response.framing.is_done() {
            self.running = None;
            to.end(cx, response, None)?;
        }
        Ok(passed)
    }

    /// Completes a body whose end is the end of its connection or stream.
    pub(crate) fn end(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut impl Downstream,
        response: &mut Response,
        trailers: Option<&HeaderMap>,
    ) -> Result<(), FailureKind> {
        if let Some(running) = &mut self.running {
            running.encoder.finish().map_err(broken)?;
        }
        self.send(cx, to, response, trailers.is_none())?;
        self.running = None;
        to.end(cx, response, trailers)
    }

    /// Flushes the encoder because the endpoint has sent nothing more for now. Returns whether
    /// output was sent.
    pub(crate) fn pause(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut impl Downstream,
        response: &mut Response,
    ) -> Result<bool, FailureKind> {
        let Some(running) = self.running.as_mut().filter(|running| running.held_back) else {
            return Ok(false);
        };
        running.held_back = false;
        running.encoder.flush().map_err(broken)?;
        self.send(cx, to, response, false)?;
        Ok(true)
    }

    /// Removes the body's framing and feeds the content to the encoder.
    fn read(&mut self, response: &mut Response, bytes: &[u8]) -> Result<Passed, FailureKind> {
        let Some(running) = &mut self.running else { return Ok(Passed { taken: 0, data: 0 }) };
        let (mut data, mut result) = (0, Ok(()));
        let taken = response.framing.read(bytes, |piece| {
            data += piece.len();
            if result.is_ok() {
                result = running.encoder.write(piece);
            }
        });
        let taken = taken.map_err(|_| FailureKind::InvalidHead)?;
        result.map_err(broken)?;
        running.held_back |= data > 0;
        self.worked += data;
        if response.framing.is_done() {
            running.encoder.finish().map_err(broken)?;
        }
        Ok(Passed { taken, data })
    }

    /// Sends the encoder's output. `is_last` marks the last piece of the body.
    fn send(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut impl Downstream,
        response: &mut Response,
        is_last: bool,
    ) -> Result<(), FailureKind> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let out = running.encoder.out();
        if out.is_empty() {
            return Ok(());
        }
        plain(response, is_last, |response| to.pass(cx, response, out))?;
        out.clear();
        out.shrink_to(KEPT);
        Ok(())
    }
}

impl Running {
    /// Returns `None` if memory is short: the response is then sent uncompressed.
    fn new(coding: Coding, level: u8, length: Option<u64>) -> Option<Self> {
        let mut share = Reservation::default();
        if !share.try_hold(Encoder::memory(coding, level, length)) {
            return None;
        }
        let encoder = Encoder::new(coding, level).ok()?;
        Some(Self { encoder, held_back: false, _share: share })
    }
}

/// Calls `with` with the framing that the compressed body has for the inner side: it ends with an
/// explicit end.
fn plain<T>(response: &mut Response, is_last: bool, with: impl FnOnce(&mut Response) -> T) -> T {
    let framing = std::mem::replace(&mut response.framing, Framing::Opaque);
    response.is_last = is_last;
    let result = with(response);
    response.framing = framing;
    response.is_last = false;
    result
}

fn broken(_: std::io::Error) -> FailureKind {
    FailureKind::InvalidHead
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("coding", &self.encoder.coding()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;
    use crate::io::budget::{self, Account, Budget};

    #[test]
    fn a_page_is_compressed_as_hard_as_it_can_be_while_others_are() {
        let budget = Budget::new(128 << 20);
        budget::serve(budget.clone());
        let account = Account::open();
        let connection = pin!(async {
            let running: Vec<_> = (0..3).map(|_| Running::new(Coding::Brotli, 11, Some(20_000))).collect();
            assert!(running.iter().all(Option::is_some));
            let long = Running::new(Coding::Brotli, 11, None);
            assert!(long.is_none(), "that would be more than the fair share of a connection");
        });
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(account.of(connection)).poll(&mut cx).is_ready());
    }
}
