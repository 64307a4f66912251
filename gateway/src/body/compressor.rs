//! The stages of one response that change its content: the replacement of texts, then compression.

use std::sync::Arc;
use std::task::Context;

use http::HeaderMap;

use super::coding::Coding;
use super::compression::{self, ClientEncodings, CompressionChoice, CompressionRules};
use super::encoder::Encoder;
use super::substitution::{Substitution, SubstitutionStream};
use crate::body::downstream::{Downstream, Passed};
use crate::io::budget::Reservation;
use crate::io::failure::FailureKind;
use crate::message::field_list::FieldList;
use crate::message::framing::Framing;
use crate::message::response::{Delivery, Response};

/// Bytes that one response may compress before other tasks of the worker run: one read.
const TURN: usize = 64 * 1024;
/// Bytes of output buffer that are kept between pieces.
const KEPT: usize = 16 * 1024;

/// The changes of the content of one response.
#[derive(Debug)]
pub(crate) struct Compressor {
    substitution: Option<Substitution>,
    compression: Option<(Arc<CompressionRules>, ClientEncodings)>,
    /// The head describes a body that does not follow.
    is_head: bool,
    /// The log needs the fields that the client gets.
    keeps_fields: bool,
    /// Those fields.
    sent_fields: Option<FieldList>,
    running: Option<Running>,
    /// Bytes changed since the task last yielded.
    worked: usize,
}

struct Running {
    substitution: Option<SubstitutionStream>,
    output: Output,
    /// The encoder holds input for which no output was produced yet.
    held_back: bool,
    _share: Reservation,
}

/// Where the content goes.
enum Output {
    Encoded(Encoder),
    Plain(Vec<u8>),
}

impl Compressor {
    pub(crate) fn new(
        substitution: Option<Substitution>,
        compression: Option<(Arc<CompressionRules>, ClientEncodings)>,
        is_head: bool,
        keeps_fields: bool,
    ) -> Self {
        Self { substitution, compression, is_head, keeps_fields, sent_fields: None, running: None, worked: 0 }
    }

    /// The fields of the response that the client got, if they are kept.
    pub(crate) fn sent_fields(&self) -> Option<&FieldList> {
        self.sent_fields.as_ref()
    }

    /// Returns whether a response is being changed.
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

    /// Starts a response and decides whether to change it.
    pub(crate) fn respond(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut impl Downstream,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        self.running = None;
        let body = response.described_body(self.is_head);
        let choice = match &self.compression {
            Some((rules, wanted)) => rules.choose(*wanted, response, body),
            None => CompressionChoice::Never,
        };
        if choice != CompressionChoice::Never {
            compression::vary(&mut response.fields);
        }
        let stream = self.substitution.as_ref().and_then(|substitution| substitution.begin(response, body));
        if self.is_head {
            let coding = match choice {
                CompressionChoice::Compress(coding, _) => Some(coding),
                CompressionChoice::Never | CompressionChoice::NotHere => None,
            };
            change_head(&mut response.fields, stream.as_ref(), coding);
            return self.begin(response, |response| to.respond(cx, response, bytes));
        }
        if let CompressionChoice::Compress(coding, level) = choice {
            self.running = Running::compressing(coding, level, response.framing.left());
        }
        if stream.is_some() {
            self.running.get_or_insert_with(Running::plain).substitution = stream;
        }
        if self.running.is_none() {
            return self.begin(response, |response| to.respond(cx, response, bytes));
        }
        let passed = self.read(response, bytes)?;
        let Some(mut running) = self.running.take() else { return Ok(passed) };
        let coding = match &running.output {
            Output::Encoded(encoder) => Some(encoder.coding()),
            Output::Plain(_) => None,
        };
        change_head(&mut response.fields, running.substitution.as_ref(), coding);
        let whole = response.framing.is_done();
        self.begin(response, |response| {
            plain(response, whole, |response| to.respond(cx, response, running.output.bytes()))
        })?;
        running.output.bytes().clear();
        match whole {
            true => to.end(cx, response, None)?,
            false => self.running = Some(running),
        }
        Ok(passed)
    }

    /// Begins the response with `respond`, and keeps the fields that the client gets.
    fn begin(
        &mut self,
        response: &mut Response,
        respond: impl FnOnce(&mut Response) -> Result<Passed, FailureKind>,
    ) -> Result<Passed, FailureKind> {
        self.sent_fields = self.keeps_fields.then(|| response.fields.clone());
        let passed = respond(response)?;
        if response.delivery == Delivery::Chunked
            && let Some(fields) = &mut self.sent_fields
        {
            fields.push_line(b"transfer-encoding", b"chunked");
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
            running.finish()?;
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
        if let Output::Encoded(encoder) = &mut running.output {
            encoder.flush().map_err(broken)?;
        }
        self.send(cx, to, response, false)?;
        Ok(true)
    }

    /// Removes the body's framing and changes the content.
    fn read(&mut self, response: &mut Response, bytes: &[u8]) -> Result<Passed, FailureKind> {
        let Some(running) = &mut self.running else { return Ok(Passed { taken: 0, data: 0 }) };
        let (mut data, mut result) = (0, Ok(()));
        let taken = response.framing.read(bytes, |piece| {
            data += piece.len();
            if result.is_ok() {
                result = running.write(piece);
            }
        });
        let taken = taken.map_err(|_| FailureKind::InvalidHead)?;
        result?;
        running.held_back |= data > 0 && matches!(running.output, Output::Encoded(_));
        self.worked += data;
        if response.framing.is_done() {
            running.finish()?;
        }
        Ok(Passed { taken, data })
    }

    /// Sends the output. `is_last` marks the last piece of the body.
    fn send(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut impl Downstream,
        response: &mut Response,
        is_last: bool,
    ) -> Result<(), FailureKind> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let out = running.output.bytes();
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
    fn compressing(coding: Coding, level: u8, length: Option<u64>) -> Option<Self> {
        let mut share = Reservation::default();
        if !share.try_hold(Encoder::memory(coding, level, length)) {
            return None;
        }
        let encoder = Encoder::new(coding, level).ok()?;
        Some(Self { output: Output::Encoded(encoder), _share: share, ..Self::plain() })
    }

    fn plain() -> Self {
        Self {
            substitution: None,
            output: Output::Plain(Vec::new()),
            held_back: false,
            _share: Reservation::default(),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), FailureKind> {
        let output = &mut self.output;
        match &mut self.substitution {
            Some(stream) => stream.write(bytes, &mut |bytes| output.write(bytes)),
            None => output.write(bytes),
        }
    }

    fn finish(&mut self) -> Result<(), FailureKind> {
        let output = &mut self.output;
        if let Some(stream) = &mut self.substitution {
            stream.finish(&mut |bytes| output.write(bytes))?;
        }
        match output {
            Output::Encoded(encoder) => encoder.finish().map_err(broken),
            Output::Plain(_) => Ok(()),
        }
    }
}

impl Output {
    fn write(&mut self, bytes: &[u8]) -> Result<(), FailureKind> {
        match self {
            Self::Encoded(encoder) => encoder.write(bytes).map_err(broken),
            Self::Plain(plain) => {
                plain.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// The output. The caller sends and clears it.
    fn bytes(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Encoded(encoder) => encoder.out(),
            Self::Plain(plain) => plain,
        }
    }
}

/// Changes a head to that of the changed body.
fn change_head(fields: &mut FieldList, substitution: Option<&SubstitutionStream>, coding: Option<Coding>) {
    if let Some(stream) = substitution {
        stream.change_head(fields);
    }
    if let Some(coding) = coding {
        compression::set_content_coding(fields, coding);
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
        f.debug_struct("Running").field("substitution", &self.substitution).finish_non_exhaustive()
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
            let running: Vec<_> =
                (0..3).map(|_| Running::compressing(Coding::Brotli, 11, Some(20_000))).collect();
            assert!(running.iter().all(Option::is_some));
            let long = Running::compressing(Coding::Brotli, 11, None);
            assert!(long.is_none(), "that would be more than the fair share of a connection");
        });
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(account.of(connection)).poll(&mut cx).is_ready());
    }
}
