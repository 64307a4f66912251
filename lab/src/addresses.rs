//! The addresses of a lab. All labs use the same ones, because each has a network namespace of its
//! own.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The lab's address on the bridge: the address of the API server, and the Pods' gateway to load
/// balancer addresses.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);
/// The gateway to Service addresses, for Pods and for the lab.
pub const SERVICES_GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 2);
/// The port of the API server.
pub const API_PORT: u16 = 6443;
/// The port on which nodes serve container logs.
pub const NODE_PORT: u16 = 10250;
/// The port of etcd, on loopback.
pub const ETCD_PORT: u16 = 2379;
/// The first Service address, which is that of the Service `kubernetes`.
pub const FIRST_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// The range of Service addresses.
pub const SERVICES: &str = "10.96.0.0/16";
/// The range of IPv6 Service addresses.
pub const SERVICES_V6: &str = "fd00:10:96::/112";
/// The range of addresses of LoadBalancer Services.
pub const BALANCERS: &str = "10.97.0.0/24";

/// A node by its number, starting at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeIndex(u8);

/// The addresses of a Pod and their link-layer address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PodAddress(Ipv4Addr);

impl NodeIndex {
    /// Maximum number of nodes: each owns 4,096 of the 65,536 Pod addresses, and the first block is
    /// the lab's.
    pub const MOST: u8 = 15;

    /// Returns the node with this number.
    pub fn new(number: u8) -> Option<Self> {
        (1..=Self::MOST).contains(&number).then_some(Self(number))
    }

    /// Returns the first `count` nodes.
    pub fn first(count: u8) -> impl Iterator<Item = Self> {
        (1..=count.min(Self::MOST)).map(Self)
    }

    /// Returns the node with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::new(name.strip_prefix("node-")?.parse().ok()?)
    }

    /// Returns the node's name in the API.
    pub fn name(self) -> String {
        format!("node-{}", self.0)
    }

    /// Returns the node's zone. Each node has its own.
    pub fn zone(self) -> String {
        format!("zone-{}", char::from(b'a' + self.0 - 1))
    }

    /// Returns the node's own address.
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 244, 0, 10 + self.0)
    }

    /// Returns the Pod address at an index in the node's block. Indices wrap around; the first and
    /// last address are not used.
    pub fn pod(self, place: u16) -> PodAddress {
        let offset = 1 + place % Self::PODS;
        let [high, low] = offset.to_be_bytes();
        PodAddress(Ipv4Addr::new(10, 244, self.0 * 16 + high, low))
    }

    /// Returns whether a Pod address is in the node's block.
    pub fn owns(self, pod: PodAddress) -> bool {
        let [a, b, c, _] = pod.0.octets();
        (a, b, c >> 4) == (10, 244, self.0)
    }

    /// Number of Pod addresses per node.
    pub const PODS: u16 = 4094;
}

impl PodAddress {
    /// Returns the IPv4 address.
    pub fn v4(self) -> Ipv4Addr {
        self.0
    }

    /// Returns the IPv6 address, for dual-stack labs.
    pub fn v6(self) -> Ipv6Addr {
        let [a, b, c, d] = self.0.octets().map(u16::from);
        Ipv6Addr::new(0xfd00, 0x10, 0x244, 0, 0, 0, a << 8 | b, c << 8 | d)
    }

    /// Returns the link-layer address, derived from the IPv4 address. If it differed between Pods
    /// that use the same IP address, stale neighbour entries would make the new Pod unreachable for
    /// about 40 s.
    pub fn mac(self) -> String {
        let [a, b, c, d] = self.0.octets();
        format!("0a:58:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
    }

    /// Returns the address in hexadecimal, short enough for the name of a network link.
    pub fn tag(self) -> String {
        format!("{:08x}", self.0.to_bits())
    }

    /// Returns the address of a tag.
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
