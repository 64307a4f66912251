//! The results that engine and pipeline exchange: the next step after an attempt, and the outcome
//! of an exchange.

use std::time::Instant;

use http::StatusCode;

use crate::message::answer::Answer;

/// Limit of interim responses over all attempts of a request. An endpoint could send them forever.
pub const MOST_INTERIM: u32 = 32;

/// The step of the engine when a response is not relayed. `A` is
/// `Originator::Answer`.
#[derive(Debug)]
pub enum Next<A = Answer> {
    /// Starts another attempt with `Originator::pick`.
    Retry,
    /// Ends with this answer.
    Answer(A),
    /// Closes the connection or resets the stream: a response has begun, or the client has left.
    Abort,
}

/// How an exchange ended, as the engine counted it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExchangeOutcome {
    /// The status sent to the client; `None` if nothing was written (logged as 499, as in nginx).
    pub status: Option<StatusCode>,
    /// Bytes of the response body sent to the client (`$body_bytes_sent`).
    pub body_sent: u64,
    /// Bytes of head and body sent to the client (`$bytes_sent`).
    pub bytes_sent: u64,
    /// Bytes of the request body received.
    pub body_received: u64,
    /// Bytes of the response body received from the endpoint of the last attempt
    /// (`$upstream_response_length`).
    pub upstream_received: u64,
    /// Whether the response was cut short.
    pub aborted: bool,
    /// When it ended; `None` is now.
    pub ended: Option<Instant>,
}

impl ExchangeOutcome {
    /// Returns the outcome for a client that left before its answer, with the bytes that it
    /// received.
    pub(crate) fn left(self, (bytes_sent, body_sent): (u64, u64)) -> Self {
        Self { status: None, bytes_sent, body_sent, aborted: true, ..self }
    }
}
