//! The choice of an endpoint for an attempt.
//!
//! The order of candidates:
//! 1. With a key: the first good endpoint on the ring, or one of the key's group.
//! 2. The one that the pool's strategy prefers, if it is good.
//! 3. The next good one in turn.
//! 4. A healthy one at capacity, where the request waits instead of failing.
//! 5. Any that this request has not tried, whatever its health: without attempts, recovery would go
//!    unnoticed.
//!
//! Good means: not tried by this request, not ejected, passing the checks of the pool, and with
//! fewer requests than one endpoint may have. After an ejection an endpoint gets a single trial
//! request first. If all were tried, no endpoint is chosen.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_config::Balance;

use super::endpoint::Endpoint;
use super::endpoint_set::{EndpointSet, SetGeneration};
use super::{balance, group};

/// What the choice of an endpoint depends on.
#[derive(Clone, Copy, Debug)]
pub struct PickRequest<'a> {
    /// Requests with the same key get the same endpoint. A key without a subset counts only in
    /// pools with a ring.
    pub key: Option<PickKey<'a>>,
    /// Endpoints that this request has tried.
    pub tried: &'a [Arc<Endpoint>],
    /// The current time.
    pub now: Instant,
}

/// The key of requests that should get the same endpoint.
#[derive(Clone, Copy, Debug)]
pub struct PickKey<'a> {
    /// The bytes that are hashed.
    pub bytes: &'a [u8],
    /// The key selects a group of this size instead of one endpoint.
    pub subset: Option<NonZeroU32>,
}

/// How a pool chooses an endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct PickMode {
    pub(super) balance: Balance,
    pub(super) slow_start: Option<Duration>,
    /// Bit mask of the active health checks in force.
    pub(super) checks: u32,
}

/// Why no endpoint can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PickError {
    /// The Service port has no usable endpoint: 503.
    #[error("the service has no endpoints")]
    NoEndpoints,
    /// This request has tried every endpoint.
    #[error("all endpoints of the service have been tried")]
    Exhausted,
}

impl PickRequest<'_> {
    fn is_new(&self, endpoint: &Endpoint) -> bool {
        self.tried.iter().all(|tried| tried.address() != endpoint.address())
    }

    /// Returns whether it is new and healthy, even if at capacity.
    fn is_well(&self, endpoint: &Endpoint, checks: u32) -> bool {
        self.is_new(endpoint) && endpoint.passes(checks) && endpoint.admits(self.now)
    }
}

impl EndpointSet {
    /// Returns the endpoint for this attempt.
    pub(super) fn pick(&self, request: &PickRequest<'_>, mode: PickMode) -> Result<Arc<Endpoint>, PickError> {
        let generation = self.current();
        if generation.endpoints.is_empty() {
            return Err(PickError::NoEndpoints);
        }
        let PickMode { balance, slow_start, checks } = mode;
        let by_key = |accept: &dyn Fn(&Endpoint) -> bool| match request.key? {
            PickKey { bytes, subset: Some(size) } => group::member(&generation, bytes, size, accept),
            PickKey { bytes, subset: None } if balance == Balance::Ring => {
                self.on_ring(&generation, bytes, accept)
            }
            _ => None,
        };
        let is_well = |endpoint: &Endpoint| request.is_well(endpoint, checks);
        let is_good = |endpoint: &Endpoint| endpoint.has_room() && is_well(endpoint);
        let is_new = |endpoint: &Endpoint| request.is_new(endpoint);
        let turn = |endpoint: &Endpoint| {
            slow_start.is_none_or(|window| endpoint.takes_its_turn(window, request.now))
        };
        let by_state = || match balance {
            Balance::Ewma => {
                balance::sooner(&generation, request.now, |endpoint| turn(endpoint) && is_good(endpoint))
            }
            Balance::LeastConnections => {
                let likely = |endpoint: &Endpoint| {
                    endpoint.has_room()
                        && request.is_new(endpoint)
                        && endpoint.passes(checks)
                        && endpoint.is_usable(request.now)
                        && turn(endpoint)
                };
                balance::fewest(&generation, likely).filter(|endpoint| is_good(endpoint))
            }
            Balance::Inherit | Balance::RoundRobin | Balance::Ring => {
                slow_start.and_then(|_| in_turn(&generation, |endpoint| turn(endpoint) && is_good(endpoint)))
            }
        };
        by_key(&is_good)
            .or_else(by_state)
            .or_else(|| in_turn(&generation, is_good))
            .or_else(|| {
                // One extra turn after a full round, so that each request starts at another
                // endpoint.
                let start = generation.next_turn();
                // Other threads advance the turn meanwhile, so the round may have skipped
                // endpoints.
                from(&generation, start, is_good)
                    .or_else(|| by_key(&is_well))
                    .or_else(|| from(&generation, start, is_well))
                    .or_else(|| by_key(&is_new))
                    .or_else(|| from(&generation, start, is_new))
            })
            .cloned()
            .ok_or(PickError::Exhausted)
    }

    /// Returns the first acceptable member on the ring, from the key's position.
    pub(super) fn on_ring<'g>(
        &self,
        generation: &'g SetGeneration,
        key: &[u8],
        accept: impl Fn(&Endpoint) -> bool,
    ) -> Option<&'g Arc<Endpoint>> {
        let member = |address: SocketAddr| generation.member(address).filter(|endpoint| accept(endpoint));
        self.ring.load().as_ref()?.find(key, member)
    }
}

/// Returns the next acceptable endpoint in turn, within one round. An unacceptable one forfeits its
/// turn instead of passing it to its neighbour, so the others stay exactly even.
fn in_turn(generation: &SetGeneration, accept: impl Fn(&Endpoint) -> bool) -> Option<&Arc<Endpoint>> {
    let endpoints = &generation.endpoints;
    let mut turns = (0..endpoints.len()).map(|_| &endpoints[generation.next_turn()]);
    turns.find(|endpoint| accept(endpoint))
}

/// Returns the first acceptable endpoint from this index.
fn from(
    generation: &SetGeneration,
    index: usize,
    accept: impl Fn(&Endpoint) -> bool,
) -> Option<&Arc<Endpoint>> {
    let (before, after) = generation.endpoints.split_at(index);
    after.iter().chain(before).find(|endpoint| accept(endpoint))
}
