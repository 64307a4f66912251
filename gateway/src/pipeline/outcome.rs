//! What a driver tells the pipeline about the upstream side, and what it is told to do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use sluice_config::UpstreamProtocol;

use super::answer::Answer;
use crate::upstream::tls::Session;

/// Interim responses before a final one, over all attempts of a request. An endpoint could send them for ever.
pub const MOST_INTERIM: u32 = 32;

/// Where and how to try.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// The endpoint.
    pub address: SocketAddr,
    /// What to speak.
    pub protocol: UpstreamProtocol,
    /// The name that is asked for in TLS; without one, none is (an address is never sent, RFC 6066 §3).
    pub server_name: Option<Arc<str>>,
    /// TLS as the rule wants it; without it no certificate is verified.
    pub tls: Option<Arc<Session>>,
    /// No pooled connection will do: the one before was stale, and there may be more of them.
    pub fresh: bool,
    /// Whether the request may be sent a second time after the endpoint may have begun with it: its method is
    /// idempotent, or the operator said so (`non_idempotent`; RFC 9110 §9.2.2).
    pub repeatable: bool,
    /// For the connection and TLS; `None` is no limit. Already cut to what is left of the retry window.
    pub connect_timeout: Option<Duration>,
    /// Between two reads; `None` is no limit.
    pub read_timeout: Option<Duration>,
    /// Between two writes; `None` is no limit.
    pub send_timeout: Option<Duration>,
    /// How long the connection may be used for other requests.
    pub keep_alive: KeepAlive,
    /// Requests that were on their way to the endpoint when this one came.
    pub in_flight: u32,
    /// When the try began.
    pub began: Instant,
}

/// The life of upstream connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Idle time (`upstream-keepalive-timeout`).
    pub idle: Duration,
    /// Age (`upstream-keepalive-time`).
    pub age: Duration,
    /// Requests (`upstream-keepalive-requests`).
    pub requests: u32,
}

/// A try that did not bring a response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What happened.
    pub kind: FailureKind,
    /// The connection came from the pool and broke before a byte of the response: most likely the endpoint had
    /// closed it while idle.
    pub stale: bool,
    /// Any byte of the request may have reached the endpoint, which may have acted on it, or failed because of it.
    pub sent: bool,
    /// The whole request body can be sent again (there is none, or all of it that was read is kept).
    pub replayable: bool,
    /// A byte of the response has already gone to the client.
    pub response_started: bool,
}

impl Failure {
    /// No connection came about.
    pub fn before_connecting(kind: FailureKind, replayable: bool) -> Self {
        Self { kind, stale: false, sent: false, replayable, response_started: false }
    }
}

/// How a try failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The connection was refused, unreachable or reset while connecting.
    Connect,
    /// Connecting took longer than the connect timeout.
    ConnectTimeout,
    /// The endpoint took the connection, but no TLS came about on it.
    Handshake,
    /// The endpoint took the connection, but TLS took longer than what the connect timeout left.
    HandshakeTimeout,
    /// We have no descriptor, port or memory for a connection: a fault of our own.
    Shortage,
    /// The connection broke before the response head was complete.
    Broken,
    /// The endpoint took longer than the read timeout.
    ReadTimeout,
    /// The endpoint took longer than the send timeout to take the request.
    SendTimeout,
    /// The response head is not HTTP, or its framing is ambiguous (RFC 9112 §6.3); or what came with the head cannot
    /// be read as a body in that framing.
    InvalidHead,
    /// The client went away or broke its own request: not the endpoint's fault.
    Client,
    /// The client took longer than the body timeout between two reads: 408.
    ClientTimeout,
    /// The client's body is not in the coding that its head names: 400.
    ClientMalformed,
    /// The client's body is larger than `proxy-body-size`: 413.
    BodyTooLarge,
    /// The client's body is to wait on disk, and there is no room: 507.
    Storage,
    /// There has been no memory for too long: a fault of our own.
    Memory,
}

impl FailureKind {
    /// Whether somebody waited for an endpoint until a limit.
    pub(super) fn is_timeout(self) -> bool {
        matches!(self, Self::ConnectTimeout | Self::HandshakeTimeout | Self::ReadTimeout | Self::SendTimeout)
    }

    /// Whether no endpoint had a part in it, and what the client has still to send may never come to an end.
    pub(super) fn is_of_the_request(self) -> bool {
        matches!(
            self,
            Self::ClientTimeout | Self::ClientMalformed | Self::BodyTooLarge | Self::Storage | Self::Memory
        )
    }
}

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
    /// Bytes of the response body received from the endpoint of the last try (`$upstream_response_length`).
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
