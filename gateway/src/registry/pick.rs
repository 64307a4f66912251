//! Which endpoint an attempt of a request gets.
//!
//! In this order: with a key, the first good one on the ring, or of its group; then the one that the pool's way of
//! balancing prefers, if it is good; else the next in turn that is good, where good means not yet tried by this request, not ejected, not failing the checks of the pool, and with fewer requests than one
//! endpoint may have; one that is back after a failure takes a single request on trial first. If none is good, a healthy
//! one that is full: the request waits there rather than fail. If every one is tried or ejected, health is ignored, because
//! without an attempt nobody would find out that an endpoint is back; and if every one has been tried, there is none.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_config::Balance;

use super::endpoint::Endpoint;
use super::endpoint_set::{EndpointSet, Generation};
use super::{balance, group};

/// What is known about a request when it needs an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct PickRequest<'a> {
    /// Requests with the same key get the same endpoint. One without a group counts only in pools that have a ring.
    pub key: Option<PickKey<'a>>,
    /// Endpoints that this request has tried.
    pub tried: &'a [Arc<Endpoint>],
    /// The time.
    pub now: Instant,
}

/// What a request has in common with others that are to get the same endpoint.
#[derive(Clone, Copy, Debug)]
pub struct PickKey<'a> {
    /// Is hashed.
    pub bytes: &'a [u8],
    /// It chooses a group of so many endpoints.
    pub subset: Option<NonZeroU32>,
}

/// How a pool chooses an endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct PickMode {
    pub(super) balance: Balance,
    pub(super) slow_start: Option<Duration>,
    /// The number of the active health checks in force.
    pub(super) checks: u32,
}

/// Why there is no endpoint.
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

    /// Whether it is well, though it may be full.
    fn is_well(&self, endpoint: &Endpoint, checks: u32) -> bool {
        self.is_new(endpoint) && endpoint.passes(checks) && endpoint.admits(self.now)
    }
}

impl EndpointSet {
    /// The endpoint for this attempt.
    pub(super) fn pick(
        &self,
        request: &PickRequest<'_>,
        manner: PickMode,
    ) -> Result<Arc<Endpoint>, PickError> {
        let generation = self.current();
        if generation.endpoints.is_empty() {
            return Err(PickError::NoEndpoints);
        }
        let PickMode { balance, slow_start, checks } = manner;
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
                // One more turn after a whole round of them, so that each request starts elsewhere.
                let start = generation.next_turn();
                // Other threads took turns in between, so the round need not have met every endpoint.
                from(&generation, start, is_good)
                    .or_else(|| by_key(&is_well))
                    .or_else(|| from(&generation, start, is_well))
                    .or_else(|| by_key(&is_new))
                    .or_else(|| from(&generation, start, is_new))
            })
            .cloned()
            .ok_or(PickError::Exhausted)
    }

    /// The first member from the key's place on the ring that is acceptable.
    pub(super) fn on_ring<'g>(
        &self,
        generation: &'g Generation,
        key: &[u8],
        accept: impl Fn(&Endpoint) -> bool,
    ) -> Option<&'g Arc<Endpoint>> {
        let member = |address: SocketAddr| generation.member(address).filter(|endpoint| accept(endpoint));
        self.ring.load().as_ref()?.find(key, member)
    }
}

/// The next in turn that is acceptable, within one round. One that is not gives its turn up rather than passing
/// it to its neighbour, so that the other endpoints stay exactly even among themselves.
fn in_turn(generation: &Generation, accept: impl Fn(&Endpoint) -> bool) -> Option<&Arc<Endpoint>> {
    let endpoints = &generation.endpoints;
    let mut turns = (0..endpoints.len()).map(|_| &endpoints[generation.next_turn()]);
    turns.find(|endpoint| accept(endpoint))
}

/// The first from this index on that is acceptable.
fn from(generation: &Generation, index: usize, accept: impl Fn(&Endpoint) -> bool) -> Option<&Arc<Endpoint>> {
    let (before, after) = generation.endpoints.split_at(index);
    after.iter().chain(before).find(|endpoint| accept(endpoint))
}
