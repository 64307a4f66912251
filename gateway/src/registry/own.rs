//! Addresses at which this program listens itself: they are never endpoints of a Service.
//!
//! Otherwise a user who may write a Service could reach our admin listener, which is for this
//! machine only, or send requests round in circles. The gateway's own calls to an address or a name
//! (`auth-url`, `mirror-target`) may go to its public listeners: on nodes with `hostNetwork` the
//! public name of a host leads there, and the count of gateways that a request carries ends loops.
//! An endpoint is ours if its port is one of our listeners' and its address is the listener's, or
//! any address of this machine where the listener has no address of its own. In a Pod that shares
//! the node's network these are the node's addresses.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use sluice_config::{Code, EndpointSetKey, ObjectRef, Problem, Severity};

use crate::descriptors::Shortage;

/// One of our listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnListener {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it is called, with the flag that sets it: `the admin listener (--admin-address)`.
    pub name: Arc<str>,
    /// Whether clients use it: the gateway's own calls may go there.
    pub is_public: bool,
}

/// An endpoint that is never connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnEndpoint {
    /// The set that names it.
    pub set: EndpointSetKey,
    /// Its address.
    pub address: SocketAddr,
    /// The listener that it leads to.
    pub listener: Arc<str>,
}

/// Where we listen.
#[derive(Clone, Debug)]
pub(super) struct Own {
    listeners: Vec<OwnListener>,
    /// Whether an address is one of this machine; `None` where that cannot be found out.
    pub(super) is_local: fn(IpAddr) -> Option<bool>,
}

/// Lookups for many endpoints at one time. It costs about five system calls to ask the kernel about an address, so each
/// address is asked about once.
#[derive(Debug)]
pub(super) struct Lookups<'o> {
    own: &'o Own,
    local: RefCell<HashMap<IpAddr, Option<bool>>>,
}

/// Whether an endpoint is one of our listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Not ours.
    Other,
    /// It leads to this listener of ours.
    Ours(Arc<str>),
    /// The kernel could not be asked for want of descriptors or memory. If it is ours, it leads to this listener.
    Unknown(Arc<str>),
}

impl Default for Own {
    fn default() -> Self {
        Self { listeners: Vec::new(), is_local }
    }
}

impl Own {
    /// Where we listen from now on. Returns whether that is a change.
    pub(super) fn set(&mut self, listeners: Vec<OwnListener>) -> bool {
        let changed = self.listeners != listeners;
        self.listeners = listeners;
        changed
    }

    /// For many endpoints at one time.
    pub(super) fn lookups(&self) -> Lookups<'_> {
        Lookups { own: self, local: RefCell::default() }
    }
}

impl Lookups<'_> {
    /// Whether an endpoint of this set leads to one of our listeners that the set must not lead to.
    pub(super) fn ask_for(&self, set: &EndpointSetKey, endpoint: SocketAddr) -> Owner {
        // What has no namespace is no Service but the address of a call of our own.
        let is_call = set.namespace.is_empty();
        self.owner(endpoint, |own| !(is_call && own.is_public))
    }

    /// Whether an endpoint leads to one of our listeners.
    pub(super) fn ask(&self, endpoint: SocketAddr) -> Owner {
        self.owner(endpoint, |_| true)
    }

    fn owner(&self, endpoint: SocketAddr, counts: impl Fn(&OwnListener) -> bool) -> Owner {
        // Nearly always this is enough. What follows costs system calls.
        let listeners = self.own.listeners.iter();
        let mut same_port =
            listeners.filter(|own| own.address.port() == endpoint.port() && counts(own)).peekable();
        if same_port.peek().is_none() {
            return Owner::Other;
        }
        let ip = reached(endpoint.ip());
        let mut unknown = None;
        for listener in same_port {
            let ours = match listener.address.ip().to_canonical() {
                any if any.is_unspecified() => self.is_local(ip),
                one => Some(one == ip),
            };
            match ours {
                Some(true) => return Owner::Ours(listener.name.clone()),
                Some(false) => {}
                None => unknown = unknown.or(Some(&listener.name)),
            }
        }
        unknown.map_or(Owner::Other, |name| Owner::Unknown(name.clone()))
    }

    fn is_local(&self, ip: IpAddr) -> Option<bool> {
        *self.local.borrow_mut().entry(ip).or_insert_with(|| (self.own.is_local)(ip))
    }
}

/// The address that a connection to `ip` reaches.
fn reached(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// Whether this machine has an address. Asks the kernel, because addresses come and go: from where it would send to an
/// address is that address itself, if it is local. No packet leaves. (To bind to it would prove nothing where
/// `net.ipv4.ip_nonlocal_bind` is set.)
fn is_local(ip: IpAddr) -> Option<bool> {
    // Of all addresses of the loopback network the kernel would send from one.
    if ip.is_loopback() {
        return Some(true);
    }
    match source(ip) {
        Ok(source) => Some(source == ip),
        Err(error) if Shortage::of(&error) == Some(Shortage::Passing) => None,
        // There is no way to it, not even within this machine.
        Err(_) => Some(false),
    }
}

fn source(ip: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((ip, 9))?;
    Ok(socket.local_addr()?.ip())
}

impl OwnEndpoint {
    /// The problem of the Service.
    pub fn problem(&self) -> Problem {
        let Self { set, address, listener } = self;
        let EndpointSetKey { namespace, service, port } = set;
        let port = if port.is_empty() { String::new() } else { format!(" of port {port:?}") };
        Problem {
            object: ObjectRef::new("Service", namespace, service),
            field: "endpoints".into(),
            uid: None,
            severity: Severity::Error,
            code: Code::EndpointIsGateway,
            message: format!(
                "the endpoint {address}{port} is {listener} of this gateway itself: it is never connected to, and \
                 requests are answered with 503 where there is no other endpoint"
            ),
            remedy: "correct the selector of the Service, or take the address out of its EndpointSlices"
                .into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(addresses: &[&str]) -> Own {
        let mut own = Own::default();
        let listener = |address: &&str| OwnListener {
            address: address.parse().unwrap(),
            name: (*address).into(),
            is_public: address.ends_with(":80"),
        };
        assert!(own.set(addresses.iter().map(listener).collect()));
        own
    }

    /// An address of this machine that is not loopback, if it has one.
    fn address_of_this_machine() -> Option<IpAddr> {
        source(Ipv4Addr::new(192, 0, 2, 1).into()).ok().filter(|ip| !ip.is_loopback())
    }

    #[test]
    fn own_calls_may_go_to_public_listeners_and_no_others() {
        let own = own(&["0.0.0.0:80", "127.0.0.1:10246"]);
        let set = |namespace: &str| EndpointSetKey {
            namespace: namespace.into(),
            service: "login.example".into(),
            port: "80".into(),
        };
        let ask =
            |namespace, endpoint: &str| own.lookups().ask_for(&set(namespace), endpoint.parse().unwrap());
        assert_eq!(ask("", "127.0.0.1:80"), Owner::Other);
        assert_eq!(ask("shop", "127.0.0.1:80"), Owner::Ours("0.0.0.0:80".into()), "a Service");
        assert_eq!(ask("", "127.0.0.1:10246"), Owner::Ours("127.0.0.1:10246".into()));
    }

    #[test]
    fn an_address_of_this_machine_with_a_port_of_ours_is_ours() {
        let own = own(&["0.0.0.0:80", "127.0.0.1:10246"]);
        for (endpoint, listener) in [
            ("127.0.0.1:80", Some("0.0.0.0:80")),
            ("127.9.9.9:80", Some("0.0.0.0:80")),
            ("[::1]:80", Some("0.0.0.0:80")),
            ("[::ffff:127.0.0.1]:80", Some("0.0.0.0:80")),
            ("0.0.0.0:80", Some("0.0.0.0:80")),
            ("127.0.0.1:81", None),
            ("192.0.2.1:80", None),
            ("127.0.0.1:10246", Some("127.0.0.1:10246")),
            ("0.0.0.0:10246", Some("127.0.0.1:10246")),
            ("[::ffff:127.0.0.1]:10246", Some("127.0.0.1:10246")),
            // Nothing of ours listens there.
            ("127.0.0.2:10246", None),
            ("192.0.2.1:10246", None),
        ] {
            let owner = listener.map_or(Owner::Other, |name| Owner::Ours(name.into()));
            assert_eq!(own.lookups().ask(endpoint.parse().unwrap()), owner, "{endpoint}");
        }
        if let Some(ip) = address_of_this_machine() {
            let ask = |port| own.lookups().ask((ip, port).into());
            assert_eq!(ask(80), Owner::Ours("0.0.0.0:80".into()), "{ip}");
            assert_eq!(ask(10246), Owner::Other, "{ip}");
        }
    }
}
