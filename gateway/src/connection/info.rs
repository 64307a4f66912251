//! What is known about a client connection for as long as it lives.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use http::HeaderValue;
use sluice_config::{BindProtocol, GroupId};

use crate::tls::ClientTls;

/// The port of https, as clients know it.
const HTTPS: u16 = 443;

/// Facts about a connection. Made once when it is ready for its first request and shared by all of them.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// Who has opened the connection.
    pub peer: SocketAddr,
    /// For whom it was opened, as a header of the PROXY protocol says.
    pub proxied: Option<Box<ProxiedAddresses>>,
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
    /// Tells it from others in the log.
    pub number: u64,
    /// When it was opened.
    pub opened: Instant,
    /// Requests that have come on it.
    pub requests: AtomicU32,
}

/// The ends of the connection that a proxy in front of us has taken, as it says in a header of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxiedAddresses {
    /// Who has opened it.
    pub source: SocketAddr,
    /// Where the proxy has taken it.
    pub destination: SocketAddr,
}

/// Field values that are the same for every request of a connection.
#[derive(Clone, Debug)]
pub struct Texts {
    /// Who is nearest on the way to the client ([`ConnectionInfo::nearest`]).
    pub nearest: HeaderValue,
    /// The port that clients have connected to.
    pub port: HeaderValue,
}

impl Texts {
    /// Of a connection from this address, on a port as clients know it.
    pub fn new(nearest: IpAddr, port: u16) -> Self {
        Self { nearest: address(nearest.to_canonical()), port: HeaderValue::from(port) }
    }
}

/// An address as a field value.
pub fn address(ip: IpAddr) -> HeaderValue {
    // Digits, dots and colons are always a field value.
    HeaderValue::try_from(ip.to_string()).unwrap_or(HeaderValue::from_static(""))
}

/// Facts about the TLS side of a connection.
#[derive(Debug)]
pub struct TlsInfo {
    /// The name the client asked for (RFC 6066 §3), in lower case.
    pub server_name: Option<Arc<str>>,
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// The cipher suite, by OpenSSL's name.
    pub cipher: &'static str,
    /// The protocol that was agreed on (RFC 7301); empty where none was.
    pub alpn: &'static str,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// Client certificates, where the host that the client asked for requests them.
    pub client: Option<Box<ClientTls>>,
}

impl ConnectionInfo {
    /// Who is nearest on the way to the client and speaks HTTP: the peer, or whoever a proxy that only passes bytes on has
    /// taken the connection from. In its canonical form.
    pub fn nearest(&self) -> IpAddr {
        let source = self.proxied.as_ref().map_or(self.peer, |proxied| proxied.source);
        source.ip().to_canonical()
    }

    /// Whether the client speaks https.
    pub fn is_https(&self) -> bool {
        self.tls.is_some()
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.is_https() { "https" } else { "http" }
    }

    /// Whether a proxy in front has taken the connection on the port of https: then it has ended TLS, if we have not.
    pub fn was_https(&self) -> bool {
        self.proxied.as_ref().is_some_and(|proxied| proxied.destination.port() == HTTPS)
    }
}
