//! Progress of a response.

use std::borrow::Cow;
use std::mem;

use crate::body::downstream::Passed;
use crate::engine::interim::InterimCounter;
use crate::message::response::Response;

/// The response to a request, over all its attempts.
#[derive(Debug, Default)]
pub(super) struct Download {
    pub(super) response: Response,
    pub(super) state: Receiving,
    /// An incomplete head.
    pub(super) partial: Vec<u8>,
    /// Bytes of the body that this attempt's endpoint has sent, without transfer coding.
    pub(super) received: u64,
    /// The endpoint has sent something in this attempt.
    pub(super) heard: bool,
    /// The endpoint has sent more than its response.
    pub(super) excess: bool,
    /// A part of the final response was forwarded.
    pub(super) started: bool,
    pub(super) heads: InterimCounter,
}

/// The part of a response that an attempt receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Receiving {
    /// The head: the final one has not arrived.
    #[default]
    Head,
    /// The body: it is incomplete.
    Body,
    /// Nothing: the response is complete.
    Done,
}

impl Download {
    /// Begins an attempt.
    pub(super) fn begin(&mut self) {
        self.state = Receiving::Head;
        self.partial.clear();
        (self.received, self.heard, self.excess, self.started) = (0, false, false, false);
    }

    /// Appends bytes to the incomplete head. Returns all of it if a head can end in them, which is
    /// at the end of a line.
    pub(super) fn extend_head<'b>(&mut self, bytes: &'b [u8]) -> Option<Cow<'b, [u8]>> {
        if self.partial.is_empty() {
            return Some(Cow::Borrowed(bytes));
        }
        self.partial.extend_from_slice(bytes);
        bytes.contains(&b'\n').then(|| Cow::Owned(mem::take(&mut self.partial)))
    }

    /// Drops the body of a response that is not relayed. The connection can be reused if the body
    /// is complete; the rest of a longer one is not waited for.
    pub(super) fn drop_body(&mut self, bytes: &[u8]) {
        if let Ok(taken) = self.response.framing.take(bytes)
            && self.response.framing.is_done()
        {
            self.state = Receiving::Done;
            self.excess |= taken < bytes.len();
        }
    }

    /// Counts the forwarded part of so many bytes. Bytes beyond the body are dropped, and later the
    /// connection.
    pub(super) fn passed(&mut self, passed: Passed, of: usize) {
        self.received += passed.data as u64;
        self.excess |= passed.taken < of;
        if self.response.framing.is_done() {
            self.state = Receiving::Done;
        }
    }
}
