//! Which endpoint an attempt of a request gets.
//!
//! In this order: the session's own endpoint; with a key, the first good one on the ring; else the next in
//! turn that is good, where good means not yet tried by this request, not ejected, and with fewer requests than one
//! endpoint may have; one that is back after a failure takes a single request on trial first. If none is good, a healthy
//! one that is full: the request waits there rather than fail. If every one is tried or ejected, health is ignored, because
//! without an attempt nobody would find out that an endpoint is back; and if every one has been tried, there is none.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use super::endpoint::Endpoint;
use super::endpoint_set::{EndpointSet, Generation};

/// What is known about a request when it needs an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct PickRequest<'a> {
    /// Hashed for a place on the ring. Looked at only by pools that have a ring.
    pub key: Option<&'a [u8]>,
    /// The endpoint that a session is bound to ([`Pool::owner`](super::Pool::owner),
    /// [`Sessions::endpoint`](super::Sessions::endpoint)). Taken whatever its health, unless it has been
    /// tried: ingress-nginx keeps sessions on their endpoint while it exists.
    pub sticky: Option<&'a Arc<Endpoint>>,
    /// Endpoints that this request has tried.
    pub tried: &'a [Arc<Endpoint>],
    /// The time.
    pub now: Instant,
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
    fn is_well(&self, endpoint: &Endpoint) -> bool {
        self.is_new(endpoint) && endpoint.admits(self.now)
    }

    fn is_good(&self, endpoint: &Endpoint) -> bool {
        endpoint.has_room() && self.is_well(endpoint)
    }
}

impl EndpointSet {
    /// The endpoint for this attempt; `by_key` says whether keys count.
    pub(super) fn pick(&self, request: &PickRequest<'_>, by_key: bool) -> Result<Arc<Endpoint>, PickError> {
        let generation = self.current();
        if generation.endpoints.is_empty() {
            return Err(PickError::NoEndpoints);
        }
        if let Some(sticky) = request.sticky.filter(|sticky| request.is_new(sticky)) {
            return Ok(sticky.clone());
        }
        let key = request.key.filter(|_| by_key);
        let by_ring = |accept: &dyn Fn(&Endpoint) -> bool| self.on_ring(&generation, key?, accept);
        let is_good = |endpoint: &Endpoint| request.is_good(endpoint);
        let is_well = |endpoint: &Endpoint| request.is_well(endpoint);
        let is_new = |endpoint: &Endpoint| request.is_new(endpoint);
        by_ring(&is_good)
            .or_else(|| in_turn(&generation, is_good))
            .or_else(|| {
                // One more turn after a whole round of them, so that each request starts elsewhere.
                let start = generation.next_turn();
                // Other threads took turns in between, so the round need not have met every endpoint.
                from(&generation, start, is_good)
                    .or_else(|| by_ring(&is_well))
                    .or_else(|| from(&generation, start, is_well))
                    .or_else(|| by_ring(&is_new))
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
