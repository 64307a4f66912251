//! Addresses and networks.

use std::net::IpAddr;
use std::sync::Arc;

use sluice_config::{CountryCode, InvalidCountry, InvalidNetwork, Network, TrustedPeers};

use super::text::{items, list_of};
use super::{Type, Wrong};

/// A comma-separated list of IP addresses, IPv6 with or without brackets.
pub fn addresses() -> Type<Vec<IpAddr>> {
    list_of("comma-separated list of IP addresses", |item| {
        let bare = item.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(item);
        bare.parse().map_err(|_| format!("has {item:?}, which is not an IP address"))
    })
}

/// A non-empty list of networks separated by commas, blanks or line feeds. An empty list, which
/// would admit or stop no client, is assumed to be an error.
pub fn networks() -> Type<Arc<[Network]>> {
    networks_if_any().and_then(|networks| match networks.is_empty() {
        true => Err(Wrong::Invalid("names no network".to_owned())),
        false => Ok(networks),
    })
}

/// The same, or an empty list.
pub fn networks_if_any() -> Type<Arc<[Network]>> {
    Type::new("comma-separated list of networks such as 10.0.0.0/8, or addresses", |text| {
        let one = |text: &str| {
            let wrong =
                |InvalidNetwork| format!("has {text:?}, which is neither a network nor an IP address");
            text.parse::<Network>().map_err(wrong)
        };
        items(text).flat_map(str::split_whitespace).map(one).collect::<Result<Arc<[_]>, String>>()
    })
}

/// A non-empty list of countries separated by commas.
pub fn countries() -> Type<Arc<[CountryCode]>> {
    list_of("comma-separated list of countries such as DE,AT (ISO 3166-1)", |item| {
        item.parse::<CountryCode>().map_err(|InvalidCountry| {
            format!("has {item:?}, which is not the code of a country, such as DE (ISO 3166-1 alpha-2)")
        })
    })
    .and_then(|countries| match countries.is_empty() {
        true => Err(Wrong::Invalid("names no country".to_owned())),
        false => Ok(countries.into()),
    })
}

/// A comma-separated list of trusted networks. `0.0.0.0/0`, ingress-nginx's default, stands for
/// every peer, including IPv6. An empty key is an empty list, which is invalid.
pub fn trusted_peers() -> Type<TrustedPeers> {
    networks()
        .map(|networks| {
            let everybody = |network: &Network| network.address.is_ipv4() && network.prefix == 0;
            match networks.iter().any(everybody) {
                true => TrustedPeers::Any,
                false => TrustedPeers::These(networks),
            }
        })
        .empty_as("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::value::Author;

    #[test]
    fn networks_are_prefixes_of_addresses_and_single_addresses() {
        let read = |text: &str| networks().parse(text, &Author::OPERATOR);
        let network = |address: &str, prefix| Network { address: address.parse().unwrap(), prefix };
        assert_eq!(
            *read("10.1.2.3/8, 192.0.2.7,2001:db8::/32,").unwrap(),
            [network("10.1.2.3", 8), network("192.0.2.7", 32), network("2001:db8::", 32)]
        );
        for bad in
            ["10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/+8", "10.0.0.0/", "example", "1.2.3.4;", ","]
        {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_list_may_have_its_entries_on_lines_of_their_own() {
        let read = |text: &str| networks().parse(text, &Author::OPERATOR).unwrap();
        let expected = read("10.0.0.0/8,192.168.0.0/16");
        for lines in ["10.0.0.0/8,\n192.168.0.0/16\n", "10.0.0.0/8\r\n192.168.0.0/16"] {
            assert_eq!(read(lines), expected, "{lines:?}");
        }
        let list = list_of("list", |item| Ok::<_, String>(item.to_owned()));
        let read = |text: &str| list.parse(text, &Author::OPERATOR);
        assert_eq!(read("a,\nb c\r\n,d\n").unwrap(), ["a", "b c", "d"]);
        assert!(read("a\nb,c").is_err(), "a comma is missing");
    }
}
