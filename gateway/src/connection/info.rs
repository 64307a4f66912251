//! What is known about a client connection for as long as it lives.

use std::net::SocketAddr;
use std::sync::Arc;

use sluice_config::{BindProtocol, GroupId};

/// Facts about a connection. Made once when it is ready for its first request and shared by all of them.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// The client's address (the PROXY protocol's, where one is spoken).
    pub peer: SocketAddr,
    /// The address the client connected to.
    pub local: SocketAddr,
    /// The listener group the socket belongs to: where hosts are looked up.
    pub group: GroupId,
    /// The port clients know, for `X-Forwarded-Port` and redirects.
    pub declared_port: u16,
    /// Protocol of the socket.
    pub protocol: BindProtocol,
    /// TLS facts, where the connection has TLS.
    pub tls: Option<TlsInfo>,
}

/// Facts about the TLS side of a connection.
#[derive(Clone, Debug)]
pub struct TlsInfo {
    /// The name the client asked for (RFC 6066 §3), in lower case.
    pub server_name: Option<Arc<str>>,
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// Name of the cipher suite.
    pub cipher: &'static str,
}

impl ConnectionInfo {
    /// Whether the client speaks https.
    pub fn is_https(&self) -> bool {
        self.tls.is_some()
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.is_https() { "https" } else { "http" }
    }
}
