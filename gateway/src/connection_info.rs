//! What is known about a client connection for as long as it lives.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::HeaderValue;
use sluice_config::{BindProtocol, GroupId};

/// Facts about a connection. Made once when it is ready for its first request and shared by all of them.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// The client's address (the PROXY protocol's, where one is spoken).
    pub peer: SocketAddr,
    /// The listener group the socket belongs to: where hosts are looked up.
    pub group: GroupId,
    /// The port clients know, for `X-Forwarded-Port` and redirects.
    pub declared_port: u16,
    /// The port of the socket, for redirects that name it.
    pub port: u16,
    /// Protocol of the socket.
    pub protocol: BindProtocol,
    /// TLS facts, where the connection has TLS.
    pub tls: Option<TlsInfo>,
    /// What endpoints get to know about it.
    pub texts: Texts,
}

/// Field values that are the same for every request of a connection.
#[derive(Clone, Debug)]
pub struct Texts {
    /// The client's address.
    pub client: HeaderValue,
    /// The declared port.
    pub port: HeaderValue,
}

impl Texts {
    /// Of a client, on a port as clients know it.
    pub fn new(peer: SocketAddr, declared_port: u16) -> Self {
        Self { client: address(peer.ip().to_canonical()), port: HeaderValue::from(declared_port) }
    }
}

/// An address as a field value.
pub fn address(ip: IpAddr) -> HeaderValue {
    // Digits, dots and colons are always a field value.
    HeaderValue::try_from(ip.to_string()).unwrap_or(HeaderValue::from_static(""))
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
