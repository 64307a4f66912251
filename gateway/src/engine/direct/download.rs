//! How far the response of an exchange has come.

use crate::body::downstream::Passed;
use crate::engine::interim::InterimCounter;
use crate::message::response::Response;

/// The response of one exchange, over all its attempts.
#[derive(Debug, Default)]
pub(super) struct Download {
    pub(super) response: Response,
    pub(super) state: Receiving,
    /// A head that is not complete.
    pub(super) partial: Vec<u8>,
    /// Bytes of the body that the endpoint of this attempt has sent, free of their coding.
    pub(super) received: u64,
    /// The endpoint has sent something in this attempt.
    pub(super) heard: bool,
    /// The endpoint has sent more than its response.
    pub(super) excess: bool,
    /// Something of the final response went out.
    pub(super) started: bool,
    pub(super) heads: InterimCounter,
}

/// How far an attempt has come with its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Receiving {
    /// The final head is not there.
    #[default]
    Head,
    /// The body is not complete.
    Body,
    /// All is there.
    Done,
}

impl Download {
    /// Begins an attempt.
    pub(super) fn begin(&mut self) {
        self.state = Receiving::Head;
        self.partial.clear();
        (self.received, self.heard, self.excess) = (0, false, false);
    }

    /// Drops the body of a response that is not relayed. If all of it came with the head, the connection may go on; it
    /// is not worth waiting for more.
    pub(super) fn drop_body(&mut self, bytes: &[u8]) {
        if let Ok(taken) = self.response.framing.take(bytes)
            && self.response.framing.is_done()
        {
            self.state = Receiving::Done;
            self.excess |= taken < bytes.len();
        }
    }

    /// Counts what was passed on of so many bytes. What does not belong to the body is dropped, and with it,
    /// later, the connection.
    pub(super) fn passed(&mut self, passed: Passed, of: usize) {
        self.received += passed.data as u64;
        self.excess |= passed.taken < of;
        if self.response.framing.is_done() {
            self.state = Receiving::Done;
        }
    }
}
