//! Properties of a client connection that do not change while it is open.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Instant;

use http::HeaderValue;
use sluice_config::{BindProtocol, GroupId};

use crate::io::early_tls::HandshakeProgress;
use crate::tls::ClientTls;

/// The port of https on which clients connect.
const HTTPS: u16 = 443;

/// The properties of a connection. Created before its first request and shared by all of them.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// The address of the peer.
    pub peer: SocketAddr,
    /// The addresses from a PROXY protocol header.
    pub proxied: Option<Box<ProxiedAddresses>>,
    /// The listener group of the socket, in which hosts are looked up.
    pub group: GroupId,
    /// The port under which clients reach the socket, for `X-Forwarded-Port` and redirects.
    pub declared_port: u16,
    /// The port of the socket, for redirects that name it.
    pub port: u16,
    /// Protocol of the socket.
    pub protocol: BindProtocol,
    /// TLS properties, if the connection has TLS.
    pub tls: Option<Box<TlsInfo>>,
    /// Field values about the connection for endpoints.
    pub texts: Texts,
    /// Number of the connection in the log.
    pub number: u64,
    /// When it was opened.
    pub opened: Instant,
    /// Requests received on it.
    pub requests: AtomicU32,
    /// Set when the client should make another handshake ([`ConnectionInfo::retire`]).
    pub(crate) retired: AtomicBool,
}

/// The client connection of a proxy in front of the gateway, from a PROXY protocol header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxiedAddresses {
    /// The client's address.
    pub source: SocketAddr,
    /// The proxy's address.
    pub destination: SocketAddr,
}

/// Field values that are the same for every request of a connection.
#[derive(Clone, Debug)]
pub struct Texts {
    /// The nearest HTTP peer on the way to the client ([`ConnectionInfo::nearest`]).
    pub nearest: HeaderValue,
    /// The port that clients connected to.
    pub port: HeaderValue,
}

impl Texts {
    /// Creates the values for this peer address and port, as seen by clients.
    pub fn new(nearest: IpAddr, port: u16) -> Self {
        let port = match port {
            // Nearly all connections come in on these, which need no memory.
            80 => HeaderValue::from_static("80"),
            443 => HeaderValue::from_static("443"),
            port => HeaderValue::from(port),
        };
        Self { nearest: address(nearest.to_canonical()), port }
    }
}

/// Returns an address as a field value.
pub fn address(ip: IpAddr) -> HeaderValue {
    // Digits, dots and colons are always a field value.
    HeaderValue::try_from(ip.to_string()).unwrap_or(HeaderValue::from_static(""))
}

/// TLS properties of a connection.
#[derive(Debug)]
pub struct TlsInfo {
    /// The requested server name (RFC 6066 §3), in lower case.
    pub server_name: Option<Arc<str>>,
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// The cipher suite, by OpenSSL's name.
    pub cipher: &'static str,
    /// The negotiated protocol (RFC 7301); empty without one.
    pub alpn: &'static str,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// Client certificates, where the host that the client asked for requests them.
    pub client: Option<Box<ClientTls>>,
    /// Progress of a handshake that had not ended when the connection was opened, because the
    /// client sent early data.
    pub progress: Option<HandshakeProgress>,
}

impl ConnectionInfo {
    /// Returns the nearest HTTP peer on the way to the client, in canonical form: the peer, or the
    /// source address in its PROXY protocol header.
    pub fn nearest(&self) -> IpAddr {
        let source = self.proxied.as_ref().map_or(self.peer, |proxied| proxied.source);
        source.ip().to_canonical()
    }

    /// Ends the connection in good order, so that the client makes another handshake: HTTP/2 sends
    /// GOAWAY, HTTP/1.1 closes with its next response.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Relaxed);
    }

    /// Returns whether the connection is to end.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Relaxed)
    }

    /// Returns whether the client uses https.
    pub fn is_https(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns whether the client speaks HTTP without TLS on a port for TLS.
    pub fn is_plain_on_https(&self) -> bool {
        self.tls.is_none() && self.protocol == BindProtocol::Https
    }

    /// Returns whether what arrives now may be a replay, because the TLS handshake has not ended
    /// (RFC 8446 §8).
    pub fn may_be_replayed(&self) -> bool {
        let progress = self.tls.as_ref().and_then(|tls| tls.progress.as_ref());
        progress.is_some_and(|progress| !progress.is_complete())
    }

    /// Returns `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.is_https() { "https" } else { "http" }
    }

    /// Returns whether a proxy in front accepted the connection on port 443, and so has ended TLS
    /// if the gateway has not.
    pub fn was_https(&self) -> bool {
        self.proxied.as_ref().is_some_and(|proxied| proxied.destination.port() == HTTPS)
    }
}
