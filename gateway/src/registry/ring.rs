//! Consistent hashing over a set: Pingora's Ketama ring, compatible in shape with nginx `hash ...
//! consistent`.
//!
//! A ring costs 160 points per endpoint. It is built only for sets that a pool with
//! [`Balance::Ring`](sluice_config::Balance::Ring) uses ([`rings`](super::rings)).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use pingora_core::protocols::l4::socket::SocketAddr as PingoraAddr;
use pingora_load_balancing::selection::{BackendIter, BackendSelection, Consistent};
use pingora_load_balancing::{Backend, Extensions};

use super::endpoint::Endpoint;

/// Points inspected for one key before the ring is given up: the average per endpoint.
const STEPS: usize = 160;

/// The ring numbers endpoints with 16 bits.
const MOST_ENDPOINTS: usize = 1 << 16;

/// A ring over one generation of a set.
pub(super) struct Ring {
    /// The number of the generation.
    pub(super) generation: u64,
    selector: Arc<Consistent>,
}

impl Ring {
    /// Builds the ring of the generation with this number and these endpoints.
    pub(super) fn build(generation: u64, endpoints: &[Arc<Endpoint>]) -> Self {
        let members = endpoints.iter().take(MOST_ENDPOINTS);
        let backends: BTreeSet<Backend> = members.map(|endpoint| backend(endpoint.address())).collect();
        Self { generation, selector: Arc::new(Consistent::build(&backends)) }
    }

    /// Returns the first endpoint from the key's position that `choose` accepts.
    pub(super) fn find<'e>(
        &self,
        key: &[u8],
        choose: impl Fn(SocketAddr) -> Option<&'e Arc<Endpoint>>,
    ) -> Option<&'e Arc<Endpoint>> {
        let mut points = self.selector.iter(key);
        let mut last = None;
        for _ in 0..STEPS {
            let address = points.next()?.addr.as_inet().copied();
            // Adjacent points often belong to the same endpoint.
            if address == last {
                continue;
            }
            last = address;
            if let Some(endpoint) = address.and_then(&choose) {
                return Some(endpoint);
            }
        }
        None
    }
}

/// Returns an endpoint in the form of Pingora's selectors and health checks.
pub(super) fn backend(address: SocketAddr) -> Backend {
    Backend { addr: PingoraAddr::Inet(address), weight: 1, ext: Extensions::new() }
}
