//! A pool: an endpoint set and how it is used.

use std::sync::Arc;
use std::time::Instant;

use sluice_config::{Balance, Keyed, PoolKey, UpstreamProtocol};

use super::endpoint::Endpoint;
use super::endpoint_set::EndpointSet;
use super::pick::{PickError, PickRequest};
use super::sessions::Sessions;

/// A pool of endpoints under one policy. Routes hold it; endpoint changes show through it.
#[derive(Debug)]
pub struct Pool {
    config: Arc<sluice_config::Pool>,
    set: Arc<EndpointSet>,
    // Copied from the configuration: with thousands of pools that is not in the cache.
    protocol: UpstreamProtocol,
    balance: Balance,
}

impl Pool {
    pub(super) fn new(config: Arc<sluice_config::Pool>, set: Arc<EndpointSet>) -> Self {
        Self { protocol: config.protocol, balance: config.balance, config, set }
    }

    /// Identity.
    pub fn key(&self) -> &PoolKey {
        &self.config.key
    }

    /// What is spoken to the endpoints.
    pub fn protocol(&self) -> UpstreamProtocol {
        self.protocol
    }

    /// How an endpoint is chosen.
    pub fn balance(&self) -> Balance {
        self.balance
    }

    /// The endpoints, shared with the other pools of the Service port.
    pub fn set(&self) -> &Arc<EndpointSet> {
        &self.set
    }

    /// How many endpoints there are now.
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// Whether there is no endpoint now.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// The endpoint for the next attempt of a request.
    pub fn pick(&self, request: &PickRequest<'_>) -> Result<Arc<Endpoint>, PickError> {
        self.set.pick(request, self.has_ring())
    }

    /// The endpoint that a key belongs to, whatever its health: what a session is bound to in affinity mode
    /// `balanced`. `None` for a pool without a ring or without endpoints.
    pub fn owner(&self, key: &[u8]) -> Option<Arc<Endpoint>> {
        if !self.has_ring() {
            return None;
        }
        let generation = self.set.current();
        self.set.on_ring(&generation, key, |_| true).cloned()
    }

    /// Takes an endpoint out for a while ([`EndpointSet::failed`]).
    pub fn failed(&self, endpoint: &Endpoint, now: Instant) {
        self.set.failed(endpoint, now);
    }

    /// The cookies of affinity mode `persistent`, for a backend name in the form `namespace-service-port`.
    /// Made once per route.
    pub fn sessions(&self, backend: &str) -> Sessions {
        Sessions::new(self.set.clone(), backend)
    }

    pub(super) fn config(&self) -> &Arc<sluice_config::Pool> {
        &self.config
    }

    fn has_ring(&self) -> bool {
        self.balance == Balance::Ring
    }
}

impl Keyed for Pool {
    type Key = PoolKey;

    fn key(&self) -> &PoolKey {
        &self.config.key
    }
}
