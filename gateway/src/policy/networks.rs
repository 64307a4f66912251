//! Sets of networks: sorted, disjoint ranges of addresses. A lookup is a binary search, so it is
//! fast for thousands of entries too.

use std::net::IpAddr;

use sluice_config::Network;

/// A set of addresses.
#[derive(Clone, Debug, Default)]
pub struct Networks {
    v4: Box<[(u32, u32)]>,
    v6: Box<[(u128, u128)]>,
}

impl Networks {
    /// Returns the union of the networks. IPv4-mapped IPv6 networks (RFC 4291 §2.5.5.2) count as
    /// IPv4, as client addresses do.
    pub fn compile(networks: &[Network]) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for Network { address, prefix } in networks {
            match (*address, address.to_canonical()) {
                (IpAddr::V6(_), IpAddr::V4(mapped)) if *prefix >= 96 => {
                    v4.push(range(u32::from(mapped).into(), 32, prefix - 96));
                }
                (IpAddr::V4(address), _) => v4.push(range(u32::from(address).into(), 32, *prefix)),
                (IpAddr::V6(address), _) => v6.push(range(address.into(), 128, *prefix)),
            }
        }
        // Cannot fail: both ends of a 32-bit range have 32 bits.
        let narrow =
            |(first, last): (u128, u128)| Some((u32::try_from(first).ok()?, u32::try_from(last).ok()?));
        Self { v4: merged(v4).into_iter().filter_map(narrow).collect(), v6: merged(v6).into() }
    }

    /// Returns whether a network contains the address, which must be in canonical form.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => holds(&self.v4, u32::from(address)),
            IpAddr::V6(address) => holds(&self.v6, u128::from(address)),
        }
    }

    /// Returns whether the set contains no address.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}

/// Returns the first and the last address of a network with addresses of `bits` bits.
fn range(address: u128, bits: u8, prefix: u8) -> (u128, u128) {
    let free = u32::from(bits.saturating_sub(prefix));
    let hosts = 1_u128.checked_shl(free).map_or(u128::MAX, |count| count - 1);
    (address & !hosts, address | hosts)
}

fn merged(mut ranges: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

fn holds<T: Ord + Copy>(ranges: &[(T, T)], address: T) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= address);
    after.checked_sub(1).is_some_and(|at| address <= ranges[at].1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn network(text: &str) -> Network {
        let (address, prefix) = text.split_once('/').unwrap();
        Network { address: address.parse().unwrap(), prefix: prefix.parse().unwrap() }
    }

    fn set(networks: &[&str]) -> Networks {
        Networks::compile(&networks.iter().map(|text| network(text)).collect::<Vec<_>>())
    }

    #[test]
    fn addresses_of_both_versions_are_found_in_their_networks() {
        let set = set(&["10.1.2.3/8", "192.0.2.7/32", "2001:db8::/32", "::ffff:198.51.100.0/120"]);
        for inside in ["10.0.0.0", "10.255.255.255", "192.0.2.7", "2001:db8::1", "198.51.100.255"] {
            assert!(set.contains(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["9.255.255.255", "11.0.0.0", "192.0.2.8", "2001:db9::", "::1", "198.51.101.0"] {
            assert!(!set.contains(outside.parse().unwrap()), "{outside}");
        }
    }

    #[test]
    fn everything_and_nothing() {
        let all = set(&["0.0.0.0/0", "::/0"]);
        for address in ["0.0.0.0", "255.255.255.255", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"] {
            assert!(all.contains(address.parse().unwrap()), "{address}");
            assert!(!set(&[]).contains(address.parse().unwrap()), "{address}");
        }
        assert!(set(&[]).is_empty() && !all.is_empty());
    }

    proptest! {
        #[test]
        fn a_set_is_the_union_of_its_networks(
            networks in prop::collection::vec((any::<u8>(), 20_u8..=32), 0..40),
            address in any::<u8>(),
        ) {
            // Close to each other, so that they overlap and touch.
            let at = |low: u8| IpAddr::from([10, 0, low >> 4, low << 4]);
            let networks: Vec<Network> =
                networks.into_iter().map(|(low, prefix)| Network { address: at(low), prefix }).collect();
            let bits = |address: IpAddr| match address {
                IpAddr::V4(address) => u32::from(address),
                IpAddr::V6(_) => unreachable!("all are of version 4"),
            };
            let within = |network: &Network| {
                let free = 32 - u32::from(network.prefix);
                bits(network.address) >> free == bits(at(address)) >> free
            };
            prop_assert_eq!(Networks::compile(&networks).contains(at(address)), networks.iter().any(within));
        }
    }
}
