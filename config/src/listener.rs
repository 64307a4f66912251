//! Listeners: groups of listeners and their sockets.
//!
//! A group is not a port. All Ingresses share one group with one listener for every host. Each TCP
//! or UDP service is a group of its own. Each Gateway is a group of its own, and its listeners may
//! use the same declared port as those of another Gateway.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::host_pattern::HostPattern;
use crate::stream::{Stream, StreamKey, TransportProtocol};

/// Opaque identity of a listener group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupId(pub Arc<str>);

impl GroupId {
    /// Returns the group of all Ingress objects.
    pub fn ingress() -> Self {
        Self("ingress".into())
    }

    /// Returns the group of a TCP or UDP service.
    pub fn stream(key: StreamKey) -> Self {
        Self(format!("{}/{}", key.transport.as_str(), key.port).into())
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Stable identity of a listener within its group (owner kind, namespace, name, listener name).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ListenerId(pub Arc<str>);

impl ListenerId {
    /// Returns the only listener of the Ingress group, which matches every host.
    pub fn any() -> Self {
        Self("any".into())
    }
}

impl fmt::Display for ListenerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Sockets and listeners of one owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerGroup {
    /// Identity.
    pub id: GroupId,
    /// Sockets, bound and unbound at run time.
    pub binds: Vec<Bind>,
    /// Listeners. The listener with the most specific host serves a request; there is no fallback
    /// to another.
    pub listeners: Vec<Listener>,
    /// Whether the data plane is ready only when the sockets of the group are bound.
    pub required: bool,
    /// Target of the group's TCP and UDP sockets.
    pub stream: Option<Arc<Stream>>,
}

/// A port on one or more addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Bind {
    /// Local addresses; `[::]` and `0.0.0.0` are wildcards.
    pub addresses: Vec<IpAddr>,
    /// Port to bind.
    pub port: u16,
    /// Port that clients connect to, used in redirects and `X-Forwarded-Port`.
    pub declared_port: u16,
    /// Protocol of the port.
    pub protocol: BindProtocol,
    /// Origin of the port, such as `--http-port`, for bind errors.
    pub source: Arc<str>,
}

/// The protocol of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BindProtocol {
    /// HTTP/1.1, or HTTP/2 with prior knowledge, without TLS.
    Http,
    /// TLS, then HTTP/1.1 or HTTP/2 by ALPN; or TLS that is passed through by SNI
    /// ([`Host::passthrough`](crate::Host::passthrough)).
    Https,
    /// Raw TCP connections for [`ListenerGroup::stream`].
    Tcp,
    /// UDP datagrams for [`ListenerGroup::stream`].
    Udp,
}

impl BindProtocol {
    /// Returns whether the bytes of the protocol are forwarded unread.
    pub const fn is_raw(self) -> bool {
        matches!(self, Self::Tcp | Self::Udp)
    }

    /// Returns the transport protocol below.
    pub const fn transport(self) -> TransportProtocol {
        match self {
            Self::Http | Self::Https | Self::Tcp => TransportProtocol::Tcp,
            Self::Udp => TransportProtocol::Udp,
        }
    }
}

/// One listener of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Listener {
    /// Identity within the group.
    pub id: ListenerId,
    /// Hosts of the listener.
    pub host: HostPattern,
}
