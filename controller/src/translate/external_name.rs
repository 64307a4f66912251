//! Services of type ExternalName: permitted names and addresses.
//!
//! The author of a Service could make the gateway send requests to itself, to programs beside it,
//! or to the metadata service of a cloud, which trusts every request from the machine. Names and
//! addresses of this machine are therefore refused, and with a cluster also names that resolve to
//! such addresses. The author of a folder of manifests owns the machine, so the latter are allowed
//! there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// A parsed `spec.externalName`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum External {
    /// A name to resolve.
    Name(Arc<str>),
    /// An address.
    Address(IpAddr),
}

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

/// Parses the name. The error completes "the name ...".
pub(crate) fn read(text: &str) -> Result<External, &'static str> {
    let text = text.trim().to_ascii_lowercase();
    let bare = text.strip_suffix('.').unwrap_or(&text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return match is_local(address) {
            true => Err("is an address of the machine that the gateway runs on"),
            false => Ok(External::Address(address)),
        };
    }
    if bare == "localhost" || bare.ends_with(".localhost") {
        return Err("means the machine that the gateway runs on");
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_label = |label: &str| !label.is_empty() && label.len() <= 63 && label.bytes().all(fits);
    match bare.len() <= 253 && bare.split('.').all(is_label) {
        true => Ok(External::Name(text.into())),
        false => Err("is no DNS name"),
    }
}

/// Returns whether an address belongs to this machine, or to a service that trusts this machine.
pub(crate) fn is_local(address: IpAddr) -> bool {
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
    fn names_of_this_machine_are_refused() {
        let name = |text: &str| Ok(External::Name(text.into()));
        assert_eq!(read("API.example.com"), name("api.example.com"));
        assert_eq!(read("api.example.com."), name("api.example.com."));
        assert_eq!(read("203.0.113.7"), Ok(External::Address([203, 0, 113, 7].into())));
        assert!(read("fd00:42::43").is_ok(), "a private address beside one that a cloud has");
        assert!(read("64:ff9b::203.0.113.7").is_ok(), "an address behind a translator");
        for refused in [
            "localhost",
            "LocalHost.",
            "a.localhost",
            "127.0.0.1",
            "127.9.9.9.",
            "::1",
            "::ffff:127.0.0.1",
            "0.0.0.0",
            "169.254.169.254",
            "fe80::1",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "fd00:42::42",
            "fd00:a9fe:a9fe::1",
            "fd00:100::100:200",
            "100.100.100.200",
            "192.0.0.192",
            "::ffff:168.63.129.16",
            "64:ff9b::a9fe:a9fe",
            "",
            ".",
            "a..b",
            "a b",
            "http://a",
        ] {
            assert!(read(refused).is_err(), "{refused}");
        }
    }
}
