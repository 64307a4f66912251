//! Services of type ExternalName: permitted names and addresses.
//!
//! The author of a Service could make the gateway send requests to itself, to programs beside it,
//! or to the metadata service of a cloud, which trusts every request from the machine. Names and
//! addresses of this machine are therefore refused, and with a cluster also names that resolve to
//! such addresses. The author of a folder of manifests owns the machine, so the latter are allowed
//! there.

use std::net::IpAddr;
use std::sync::Arc;

use sluice_config::dns_name::is_dns_name;
use sluice_config::local_address::is_local;

/// A parsed `spec.externalName`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum External {
    /// A name to resolve.
    Name(Arc<str>),
    /// An address.
    Address(IpAddr),
}

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
    match is_dns_name(bare) {
        true => Ok(External::Name(text.into())),
        false => Err("is not a DNS name"),
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
