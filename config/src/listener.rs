//! What listens: groups of listeners and the sockets they are reached by.
//!
//! A group is not a port. All Ingresses together are one group with one listener for any host; every Gateway
//! is a group of its own, whose listeners may stand on the same declared port as another Gateway's.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::host::HostPattern;

/// Opaque identity of a listener group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupId(pub Arc<str>);

impl GroupId {
    /// The group of all Ingress objects.
    pub fn ingress() -> Self {
        Self("ingress".into())
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
    /// The only listener of the Ingress group: it takes every host.
    pub fn any() -> Self {
        Self("any".into())
    }
}

impl fmt::Display for ListenerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Sockets and listeners that belong together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerGroup {
    /// Identity.
    pub id: GroupId,
    /// Sockets. They come and go while the program runs.
    pub binds: Vec<Bind>,
    /// Listeners; a request goes to the one with the most specific host, and is final there.
    pub listeners: Vec<Listener>,
}

/// One port on one or more addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Bind {
    /// Local addresses, `[::]` and `0.0.0.0` for all.
    pub addresses: Vec<IpAddr>,
    /// The port to bind.
    pub port: u16,
    /// The port that clients see and that redirects and `X-Forwarded-Port` name.
    pub declared_port: u16,
    /// What is spoken on it.
    pub protocol: BindProtocol,
    /// What the port comes from, for the message when it cannot be bound: `--http-port`.
    pub source: Arc<str>,
}

/// The protocol of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BindProtocol {
    /// HTTP/1.1, and HTTP/2 by prior knowledge, without TLS.
    Http,
    /// TLS, then HTTP/1.1 or HTTP/2 as ALPN chooses.
    Https,
}

/// One listener of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    /// Identity within the group.
    pub id: ListenerId,
    /// The hosts that belong to it.
    pub host: HostPattern,
}
