//! The identity of a session.

use std::net::SocketAddr;

use super::datagram::Local;

/// Identity of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SessionKey {
    pub(super) client: SocketAddr,
    /// The address that the client sends to, and that it expects responses from.
    pub(super) local: Local,
}
