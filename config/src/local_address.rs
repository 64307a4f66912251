//! Addresses that a user must not make the gateway connect to by a name: those of this machine, and
//! of services that trust every request from it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Metadata addresses of clouds that are not link-local, from the providers' documentation and
/// cloud-init. Most other clouds use 169.254.169.254 or another link-local address: DigitalOcean,
/// Hetzner, IBM, OpenStack, Tencent (169.254.0.23), Vultr. Equinix Metal used a public name and has
/// been shut down.
const METADATA: [IpAddr; 8] = [
    // Alibaba Cloud, "Instance metadata"; the IPv6 address is from cloud-init.
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x0100, 0, 0, 0, 0, 0x0100, 0x0200)),
    // Azure, "What is IP address 168.63.129.16": WireServer, and the DNS of the virtual network.
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    // Oracle Cloud Classic, "Retrieving Instance Metadata"; the IPv6 address is from Oracle's SDK.
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x00c1, 0, 0, 0, 0, 0xa9fe, 0xa9fe)),
    // Google Cloud, machines with IPv6 only.
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254)),
    // Akamai (Linode) and Scaleway, from cloud-init.
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x0042, 0, 0, 0, 0, 0, 0x0042)),
];

/// First 32 bits of AWS's IPv6 addresses for services of one machine: metadata (`fd00:ec2::254`,
/// EC2 guide), credentials of Pods (`fd00:ec2::23`, EKS guide), DNS and time.
const AWS: [u16; 2] = [0xfd00, 0x0ec2];

/// The prefix of IPv4 addresses behind a translator (RFC 6052 §2.1).
const NAT64: [u16; 6] = [0x0064, 0xff9b, 0, 0, 0, 0];

/// Returns whether an address belongs to this machine, or to a service that trusts this machine.
pub fn is_local(address: IpAddr) -> bool {
    let address = carried(address);
    let is_own = match address {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local() || ip.octets()[0] == 0,
        IpAddr::V6(ip) => {
            ip.is_loopback()
                || ip.is_unicast_link_local()
                || ip.is_unspecified()
                || ip.segments().starts_with(&AWS)
        }
    };
    is_own || METADATA.contains(&address)
}

/// Returns the IPv4 address embedded in an IPv6 address, if any.
fn carried(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) if ip.segments().starts_with(&NAT64) => {
            let [.., a, b, c, d] = ip.octets();
            Ipv4Addr::new(a, b, c, d).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_and_of_metadata_services_are_local() {
        for address in [
            "127.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "0.0.0.0",
            "169.254.169.254",
            "fe80::1",
            "fd00:ec2::254",
            "64:ff9b::a9fe:a9fe",
        ] {
            assert!(is_local(address.parse().unwrap()), "{address}");
        }
        for address in ["192.0.2.1", "10.0.0.1", "2001:db8::1", "64:ff9b::c000:201"] {
            assert!(!is_local(address.parse().unwrap()), "{address}");
        }
    }
}
