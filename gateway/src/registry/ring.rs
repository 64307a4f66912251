//! Consistent hashing over a set, as in ingress-nginx ([`points`]).
//!
//! A ring costs 160 points per endpoint. It is built only for sets that a pool with
//! [`Balance::Ring`](sluice_config::Balance::Ring) uses ([`rings`](super::rings)).

mod points;

use std::net::SocketAddr;
use std::sync::Arc;

use super::endpoint::Endpoint;
use points::Points;

/// Points inspected for one key before the ring is given up: the average per endpoint.
const STEPS: usize = points::PER_ENDPOINT;

/// A ring over one generation of a set.
pub(super) struct Ring {
    /// The number of the generation.
    pub(super) generation: u64,
    addresses: Box<[SocketAddr]>,
    points: Points,
}

impl Ring {
    /// Builds the ring of the generation with this number and these endpoints.
    pub(super) fn build(generation: u64, endpoints: &[Arc<Endpoint>]) -> Self {
        let addresses: Box<[_]> = endpoints.iter().map(|endpoint| endpoint.address()).collect();
        Self { generation, points: Points::new(&addresses), addresses }
    }

    /// Returns the first endpoint from the key's position that `choose` accepts.
    pub(super) fn find<'e>(
        &self,
        key: &[u8],
        choose: impl Fn(SocketAddr) -> Option<&'e Arc<Endpoint>>,
    ) -> Option<&'e Arc<Endpoint>> {
        let mut last = None;
        for index in self.points.starting_at(key).take(STEPS) {
            // Adjacent points often belong to the same endpoint.
            if last.replace(index) == Some(index) {
                continue;
            }
            if let Some(endpoint) = choose(self.addresses[index]) {
                return Some(endpoint);
            }
        }
        None
    }
}
