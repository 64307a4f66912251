//! A datagram of a client, with the local address that it was sent to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nix::libc;

/// A received datagram.
pub(super) struct Datagram<'b> {
    pub(super) client: SocketAddr,
    pub(super) local: Local,
    pub(super) bytes: &'b [u8],
}

/// A local address that a datagram was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Local {
    pub(super) ip: IpAddr,
    /// The interface, which a link-local address needs; otherwise 0.
    pub(super) interface: u32,
}

impl From<libc::in_pktinfo> for Local {
    fn from(info: libc::in_pktinfo) -> Self {
        Self { ip: Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes()).into(), interface: 0 }
    }
}

impl From<libc::in6_pktinfo> for Local {
    fn from(info: libc::in6_pktinfo) -> Self {
        let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr);
        let interface = if ip.is_unicast_link_local() { info.ipi6_ifindex } else { 0 };
        Self { ip: ip.into(), interface }
    }
}
