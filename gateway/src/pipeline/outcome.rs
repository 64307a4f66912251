//! What a driver tells the pipeline about the upstream side, and what it is told to do.

use std::time::Instant;

use http::StatusCode;

use crate::message::answer::Answer;

/// Interim responses before a final one, over all attempts of a request. An endpoint could send them for ever.
pub const MOST_INTERIM: u32 = 32;

/// What the driver does in place of relaying a response.
#[derive(Debug)]
pub enum Next {
    /// Asks [`Exchange::pick`](super::Exchange::pick) again.
    Retry,
    /// Sends this answer.
    Answer(Answer),
    /// Ends the exchange by closing the connection or resetting the stream: a response has begun, or nobody
    /// is there to read one.
    Abort,
}

/// How an exchange ended, as the driver counted it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// The status that went to the client; `None` when nothing was written (the log then says 499, as nginx
    /// does, when the client went away).
    pub status: Option<StatusCode>,
    /// Bytes of the response body sent to the client (`$body_bytes_sent`).
    pub body_sent: u64,
    /// Bytes of head and body sent to the client (`$bytes_sent`).
    pub bytes_sent: u64,
    /// Bytes of the request body received.
    pub body_received: u64,
    /// Bytes of the response body received from the endpoint of the last attempt (`$upstream_response_length`).
    pub upstream_received: u64,
    /// Whether the response was cut short.
    pub aborted: bool,
    /// When it ended, where the driver has looked; else now.
    pub ended: Option<Instant>,
}

impl Outcome {
    /// The client has left before its answer, having been sent so many bytes in all and of the body.
    pub(crate) fn left(self, (bytes_sent, body_sent): (u64, u64)) -> Self {
        Self { status: None, bytes_sent, body_sent, aborted: true, ..self }
    }
}
