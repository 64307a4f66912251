//! How an attempt at an endpoint fails: what sockets, bodies, policies and the pipeline all speak of.

/// An attempt that did not bring a response head.
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

/// How an attempt failed.
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
    pub(crate) fn is_timeout(self) -> bool {
        matches!(self, Self::ConnectTimeout | Self::HandshakeTimeout | Self::ReadTimeout | Self::SendTimeout)
    }

    /// Whether no endpoint had a part in it, and what the client has still to send may never come to an end.
    pub(crate) fn is_of_the_request(self) -> bool {
        matches!(
            self,
            Self::ClientTimeout | Self::ClientMalformed | Self::BodyTooLarge | Self::Storage | Self::Memory
        )
    }
}
