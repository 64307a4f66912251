//! Services of type ExternalName: which names they may have, and which of their addresses are used.
//!
//! Whoever may write a Service could have the gateway ask itself, what runs beside it or the metadata service of a cloud,
//! which believes whoever asks from there. So names and addresses that mean this machine are refused, and with a cluster
//! so are names that resolve to such addresses. With a folder of manifests they are not: whoever writes that owns the machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// What `spec.externalName` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum External {
    /// A name that has to be looked up.
    Name(Arc<str>),
    /// An address.
    Address(IpAddr),
}

/// What only the machine may ask, where that is not link-local: the metadata services of AWS and Google Cloud by IPv6, that of
/// Alibaba Cloud, and Azure's WireServer.
const METADATA: [IpAddr; 4] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
];

/// Reads it. The error completes "the name ...".
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

/// Whether an address means this machine, or what only it may ask.
pub(crate) fn is_local(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_own = match address {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local() || ip.octets()[0] == 0,
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local() || ip.is_unspecified(),
    };
    is_own || METADATA.contains(&address)
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
            "fd20:ce::254",
            "100.100.100.200",
            "::ffff:168.63.129.16",
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
