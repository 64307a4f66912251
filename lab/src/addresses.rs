//! The addresses of a lab. Every lab uses the same ones, since each is alone in its network namespace.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The lab's end of the bridge: the API server's address, and the Pods' way to service addresses.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);
/// Where the addresses of Services are: the way to them from Pods and from the lab.
pub const SERVICES_GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 2);
/// The port of the API server.
pub const API_PORT: u16 = 6443;
/// The port on which a node serves container logs.
pub const NODE_PORT: u16 = 10250;
/// The port of etcd, on loopback.
pub const ETCD_PORT: u16 = 2379;
/// The first Service address, which is that of the Service `kubernetes`.
pub const FIRST_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// Where Service addresses come from.
pub const SERVICES: &str = "10.96.0.0/16";
/// Where IPv6 Service addresses come from.
pub const SERVICES_V6: &str = "fd00:10:96::/112";
/// Where addresses of LoadBalancer Services come from.
pub const BALANCERS: &str = "10.97.0.0/24";

/// A node, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeIndex(u8);

/// One Pod's addresses and the link-layer address that goes with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PodAddress(Ipv4Addr);

impl NodeIndex {
    /// The most nodes a lab can have: each owns 4,096 of the 65,536 Pod addresses, and the first block is the lab's.
    pub const MOST: u8 = 15;

    /// The node of this number.
    pub fn new(number: u8) -> Option<Self> {
        (1..=Self::MOST).contains(&number).then_some(Self(number))
    }

    /// The first `count` nodes.
    pub fn first(count: u8) -> impl Iterator<Item = Self> {
        (1..=count.min(Self::MOST)).map(Self)
    }

    /// The node called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::new(name.strip_prefix("node-")?.parse().ok()?)
    }

    /// The node's name in the API.
    pub fn name(self) -> String {
        format!("node-{}", self.0)
    }

    /// The zone the node is in: one for each node.
    pub fn zone(self) -> String {
        format!("zone-{}", char::from(b'a' + self.0 - 1))
    }

    /// The node's own address.
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 244, 0, 10 + self.0)
    }

    /// The Pod address at a place in the node's block. Places wrap around; the first and last address are left out.
    pub fn pod(self, place: u16) -> PodAddress {
        let offset = 1 + place % Self::PODS;
        let [high, low] = offset.to_be_bytes();
        PodAddress(Ipv4Addr::new(10, 244, self.0 * 16 + high, low))
    }

    /// Whether a Pod address is in the node's block.
    pub fn owns(self, pod: PodAddress) -> bool {
        let [a, b, c, _] = pod.0.octets();
        (a, b, c >> 4) == (10, 244, self.0)
    }

    /// How many Pod addresses a node has.
    pub const PODS: u16 = 4094;
}

impl PodAddress {
    /// The IPv4 address.
    pub fn v4(self) -> Ipv4Addr {
        self.0
    }

    /// The IPv6 address, used where the lab is dual stack.
    pub fn v6(self) -> Ipv6Addr {
        let [a, b, c, d] = self.0.octets().map(u16::from);
        Ipv6Addr::new(0xfd00, 0x10, 0x244, 0, 0, 0, a << 8 | b, c << 8 | d)
    }

    /// The link-layer address, a function of the IPv4 address: an address used again by another Pod must not meet a
    /// neighbour's stale entry, which would make it unreachable for some 40 s.
    pub fn mac(self) -> String {
        let [a, b, c, d] = self.0.octets();
        format!("0a:58:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
    }

    /// The address in hexadecimal, short enough for the name of a network link.
    pub fn tag(self) -> String {
        format!("{:08x}", self.0.to_bits())
    }

    /// The address that a tag stands for.
    pub fn of_tag(tag: &str) -> Option<Self> {
        Some(Self(Ipv4Addr::from_bits(u32::from_str_radix(tag, 16).ok()?)))
    }
}

impl From<Ipv4Addr> for PodAddress {
    fn from(address: Ipv4Addr) -> Self {
        Self(address)
    }
}

impl fmt::Display for PodAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_own_separate_blocks() {
        let node = NodeIndex::new(2).unwrap();
        assert_eq!(node.name(), "node-2");
        assert_eq!(NodeIndex::named("node-2"), Some(node));
        assert_eq!(node.zone(), "zone-b");
        assert_eq!(node.pod(0).to_string(), "10.244.32.1");
        assert_eq!(node.pod(255).to_string(), "10.244.33.0");
        assert_eq!(node.pod(4093).to_string(), "10.244.47.254");
        assert_eq!(node.pod(4094), node.pod(0));
        assert!(node.owns(node.pod(4093)) && !NodeIndex::new(1).unwrap().owns(node.pod(0)));
        assert_eq!(NodeIndex::new(0), None);
        assert_eq!(NodeIndex::new(15).unwrap().pod(4093).to_string(), "10.244.255.254");
    }

    #[test]
    fn a_pod_address_fixes_all_its_other_addresses() {
        let pod = NodeIndex::new(1).unwrap().pod(1);
        assert_eq!(pod.mac(), "0a:58:0a:f4:10:02");
        assert_eq!(pod.tag(), "0af41002");
        assert_eq!(PodAddress::of_tag(&pod.tag()), Some(pod));
        assert_eq!(pod.v6().to_string(), "fd00:10:244::af4:1002");
    }
}
