//! Failures of an attempt at an endpoint, shared by sockets, bodies, policies and the pipeline.

/// `error.type` of a request whose client left before its end, which is no error of a server.
pub(crate) const CLIENT_LEFT: &str = "client_closed_request";

/// An attempt that did not yield a relayed response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What happened.
    pub kind: FailureKind,
    /// The connection came from the pool and broke before the first byte of the response: most
    /// likely the endpoint had closed it while idle.
    pub stale: bool,
    /// Part of the request may have reached the endpoint, which may have processed it.
    pub sent: bool,
    /// The whole request body can be sent again: it is empty, or everything read is kept.
    pub replayable: bool,
    /// Part of the response was sent to the client.
    pub response_started: bool,
}

impl Failure {
    /// Returns a failure before a connection was established.
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
    /// The endpoint accepted the connection, but the TLS handshake failed.
    Handshake,
    /// The endpoint accepted the connection, but TLS took longer than the rest of the connect
    /// timeout.
    HandshakeTimeout,
    /// The gateway has no descriptor, port or memory for a connection: not the endpoint's fault.
    Shortage,
    /// The connection broke before the response head was complete.
    Broken,
    /// The endpoint took longer than the read timeout.
    ReadTimeout,
    /// The endpoint took longer than the send timeout to accept the request.
    SendTimeout,
    /// The response head is not HTTP or its framing is ambiguous (RFC 9112 §6.3), or the bytes
    /// behind it are not a body in that framing.
    InvalidHead,
    /// The client left or sent a malformed request: not the endpoint's fault.
    Client,
    /// The client took longer than the body timeout between two reads: 408.
    ClientTimeout,
    /// The client's body is not in the transfer coding that its head names: 400.
    ClientMalformed,
    /// The client's body is larger than `proxy-body-size`: 413.
    BodyTooLarge,
    /// The client's body must be buffered on disk, which is full: 507.
    Storage,
    /// No memory was available in time: not the endpoint's fault.
    Memory,
    /// The firewall refuses the response, of which the client has received nothing: not the
    /// endpoint's fault.
    ResponseRefused,
}

impl FailureKind {
    /// Returns the kind for programs (`error.type` of spans).
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect_error",
            Self::ConnectTimeout => "connect_timeout",
            Self::Handshake => "tls_handshake_error",
            Self::HandshakeTimeout => "tls_handshake_timeout",
            Self::Shortage => "no_connection",
            Self::Broken => "connection_broken",
            Self::ReadTimeout => "read_timeout",
            Self::SendTimeout => "send_timeout",
            Self::InvalidHead => "invalid_response",
            Self::Client => CLIENT_LEFT,
            Self::ClientTimeout => "client_timeout",
            Self::ClientMalformed => "malformed_body",
            Self::BodyTooLarge => "body_too_large",
            Self::Storage => "no_disk",
            Self::Memory => "no_memory",
            Self::ResponseRefused => "response_refused",
        }
    }

    /// Returns whether the client can be sent an answer in place of the response, of which it has
    /// been sent a part if `started`. A response that was refused has been held back, head
    /// included.
    pub(crate) fn permits_answer(self, started: bool) -> bool {
        match self {
            Self::Client => false,
            Self::ResponseRefused => true,
            _ => !started,
        }
    }

    /// Returns whether an endpoint exceeded a time limit.
    pub(crate) fn is_timeout(self) -> bool {
        matches!(self, Self::ConnectTimeout | Self::HandshakeTimeout | Self::ReadTimeout | Self::SendTimeout)
    }

    /// Returns whether no endpoint caused it, and the rest of the client's request may never
    /// arrive.
    pub(crate) fn is_of_the_request(self) -> bool {
        matches!(
            self,
            Self::ClientTimeout | Self::ClientMalformed | Self::BodyTooLarge | Self::Storage | Self::Memory
        )
    }
}
