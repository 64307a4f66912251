//! The points of a consistent hash ring: those of `resty.chash`, which ingress-nginx uses for
//! sessions of mode balanced and for `upstream-hash-by`. A key thus selects the same endpoint in
//! both controllers, and sessions survive the move to Sluice.
//!
//! The first point of an endpoint is the CRC-32 of `<address>:<port>` and four bytes of zero, each
//! further one that of `<address>:<port>` and the point before it in little-endian order. A key
//! belongs to the first point from its own CRC-32 on. nginx's `hash ... consistent` separates
//! address and port by a byte of zero instead, which selects other endpoints.

use std::net::SocketAddr;

use crc32fast::Hasher;

/// Points of each endpoint.
pub(super) const PER_ENDPOINT: usize = 160;

/// The points of a set of endpoints, in order.
pub(super) struct Points(Box<[Point]>);

/// A point of an endpoint. Points with equal hashes are in the order of their endpoints.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    hash: u32,
    /// Index of the endpoint.
    endpoint: u32,
}

impl Points {
    pub(super) fn new(addresses: &[SocketAddr]) -> Self {
        let mut points = Vec::with_capacity(addresses.len() * PER_ENDPOINT);
        for (endpoint, address) in (0..).zip(addresses) {
            let mut start = Hasher::new();
            start.update(address.to_string().as_bytes());
            let mut hash = 0_u32;
            for _ in 0..PER_ENDPOINT {
                let mut hasher = start.clone();
                hasher.update(&hash.to_le_bytes());
                hash = hasher.finalize();
                points.push(Point { hash, endpoint });
            }
        }
        points.sort_unstable();
        points.dedup_by_key(|point| point.hash);
        Self(points.into())
    }

    /// Returns the indices of the endpoints from the key's position on, once around the ring.
    pub(super) fn starting_at(&self, key: &[u8]) -> impl Iterator<Item = usize> {
        let hash = crc32fast::hash(key);
        let (before, after) = self.0.split_at(self.0.partition_point(|point| point.hash < hash));
        after.iter().chain(before).map(|point| point.endpoint as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_balanced_cookie_of_ingress_nginx_keeps_its_endpoint() {
        let owners = |addresses: &[&str], keys: &[&str]| -> Vec<usize> {
            let addresses: Vec<SocketAddr> = addresses.iter().map(|one| one.parse().unwrap()).collect();
            let points = Points::new(&addresses);
            keys.iter().map(|key| points.starting_at(key.as_bytes()).next().unwrap()).collect()
        };
        let keys = [
            "1795810000.600.31.923",
            "1795817919.601.31.70290",
            "1795825838.602.31.139657",
            "1795833757.603.31.209024",
            "1795841676.604.31.278391",
            "1795849595.605.31.347758",
            "1795857514.606.31.417125",
            "1795865433.607.31.486492",
            "1795873352.608.31.555859",
            "1795881271.609.31.625226",
            "1795889190.610.31.694593",
            "1795897109.611.31.763960",
        ];
        let four = [
            "10.244.0.7:8080",
            "10.244.1.10:8080",
            "10.244.2.13:8080",
            "10.244.3.16:8080",
            "10.244.4.19:8080",
        ];
        assert_eq!(owners(&four, &keys), [2, 0, 4, 4, 1, 0, 0, 0, 3, 4, 1, 3]);
        let six = ["[fd00::1]:8080", "[fd00::1:2]:8080", "[fd00::2:0:3]:8080"];
        assert_eq!(owners(&six, &keys), [0, 1, 2, 1, 1, 1, 1, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn without_endpoints_a_key_selects_none() {
        assert_eq!(Points::new(&[]).starting_at(b"key").next(), None);
    }
}
