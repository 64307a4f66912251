//! The gateway's own listeners, which are never endpoints of a Service.
//!
//! Otherwise a user who may write a Service could reach the admin listener, which is for this
//! machine only, or send requests in circles. The gateway's own calls to an address or name
//! (`auth-url`, `mirror-target`) may use its public listeners: on nodes with `hostNetwork` the
//! public name of a host leads there, and the hop count of a request ends loops. An endpoint is a
//! listener if its port is the listener's and its address is the listener's, or any address of this
//! machine if the listener is bound to all. In a Pod on the host network these are the node's
//! addresses.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use sluice_config::{Code, EndpointSetKey, ObjectRef, Problem, Severity};

use crate::process::descriptors::Shortage;

/// A listener of the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnListener {
    /// Its address.
    pub address: SocketAddr,
    /// Its name with the flag that sets it: `the admin listener (--admin-address)`.
    pub name: Arc<str>,
    /// Whether clients use it; the gateway's own calls may connect to it.
    pub is_public: bool,
}

/// An endpoint that is never connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnEndpoint {
    /// The set that contains it.
    pub set: EndpointSetKey,
    /// Its address.
    pub address: SocketAddr,
    /// The listener at that address.
    pub listener: Arc<str>,
}

/// The gateway's listeners.
#[derive(Clone, Debug)]
pub(super) struct OwnListeners {
    listeners: Vec<OwnListener>,
    /// Returns whether an address belongs to this machine, or `None` if that is unknown.
    pub(super) is_local: fn(IpAddr) -> Option<bool>,
}

/// Lookups for many endpoints. Querying the kernel takes about five system calls, so each address
/// is queried once.
#[derive(Debug)]
pub(super) struct Lookups<'o> {
    own: &'o OwnListeners,
    local: RefCell<HashMap<IpAddr, Option<bool>>>,
}

/// Whether an endpoint is a listener of the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It is not.
    Other,
    /// It is this listener.
    Ours(Arc<str>),
    /// Unknown: the query failed for lack of descriptors or memory. It can only be this listener.
    Unknown(Arc<str>),
}

impl Default for OwnListeners {
    fn default() -> Self {
        Self { listeners: Vec::new(), is_local }
    }
}

impl OwnListeners {
    /// Replaces the listeners. Returns whether they changed.
    pub(super) fn set(&mut self, listeners: Vec<OwnListener>) -> bool {
        let changed = self.listeners != listeners;
        self.listeners = listeners;
        changed
    }

    /// Starts lookups for many endpoints.
    pub(super) fn lookups(&self) -> Lookups<'_> {
        Lookups { own: self, local: RefCell::default() }
    }
}

impl Lookups<'_> {
    /// Returns whether an endpoint of this set is a listener that the set must not contain.
    pub(super) fn ask_for(&self, set: &EndpointSetKey, endpoint: SocketAddr) -> Owner {
        // A set without a namespace is the target of the gateway's own calls.
        let is_call = set.namespace.is_empty();
        self.owner(endpoint, |own| !(is_call && own.is_public))
    }

    /// Returns whether an endpoint is a listener of the gateway.
    pub(super) fn ask(&self, endpoint: SocketAddr) -> Owner {
        self.owner(endpoint, |_| true)
    }

    fn owner(&self, endpoint: SocketAddr, counts: impl Fn(&OwnListener) -> bool) -> Owner {
        // Ports differ in nearly all cases. The rest costs system calls.
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

/// Returns the address that a connection to `ip` reaches.
fn reached(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// Returns whether `ip` is an address of this machine. Queries the kernel, because addresses
/// change: for a local destination the source address is the destination itself. No packet is sent.
/// (Binding would prove nothing where `net.ipv4.ip_nonlocal_bind` is set.)
fn is_local(ip: IpAddr) -> Option<bool> {
    // For all loopback addresses the kernel may choose the same source.
    if ip.is_loopback() {
        return Some(true);
    }
    match source(ip) {
        Ok(source) => Some(source == ip),
        Err(error) if Shortage::of(&error) == Some(Shortage::Passing) => None,
        // There is no route, not even a local one.
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
    /// Returns the problem to report for the Service.
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

    fn own(addresses: &[&str]) -> OwnListeners {
        let mut own = OwnListeners::default();
        let listener = |address: &&str| OwnListener {
            address: address.parse().unwrap(),
            name: (*address).into(),
            is_public: address.ends_with(":80"),
        };
        assert!(own.set(addresses.iter().map(listener).collect()));
        own
    }

    /// Returns an address of this machine that is not loopback, if there is one.
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
            // No listener has this address.
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
