//! A pool: an endpoint set and how it is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use sluice_config::{Balance, Keyed, PoolKey, UpstreamProtocol};

use super::balance::DefaultBalance;
use super::endpoint::Endpoint;
use super::endpoint_set::EndpointSet;
use super::pick::{PickError, PickMode, PickRequest};
use super::sessions::Sessions;

/// A pool of endpoints under one policy. Routes hold it; endpoint changes show through it.
#[derive(Debug)]
pub struct Pool {
    config: Arc<sluice_config::Pool>,
    set: Arc<EndpointSet>,
    // Copied from the configuration: with thousands of pools that is not in the cache.
    protocol: UpstreamProtocol,
    balance: Balance,
    slow_start: Option<Duration>,
    default_balance: Arc<DefaultBalance>,
    /// Its active check, or [`UNCHECKED`].
    slot: AtomicU8,
}

/// In place of the slot of a check: there is none, or there was no room for it yet.
const UNCHECKED: u8 = u8::MAX;

impl Pool {
    pub(super) fn new(
        config: Arc<sluice_config::Pool>,
        set: Arc<EndpointSet>,
        default_balance: Arc<DefaultBalance>,
        slot: Option<u8>,
    ) -> Self {
        Self {
            protocol: config.protocol,
            balance: config.balance,
            slow_start: config.slow_start,
            config,
            set,
            default_balance,
            slot: slot.unwrap_or(UNCHECKED).into(),
        }
    }

    /// Identity.
    pub fn key(&self) -> &PoolKey {
        &self.config.key
    }

    /// What is spoken to the endpoints.
    pub fn protocol(&self) -> UpstreamProtocol {
        self.protocol
    }

    /// How an endpoint is chosen now; never [`Balance::Inherit`].
    pub fn balance(&self) -> Balance {
        match self.balance {
            Balance::Inherit => self.default_balance.get(),
            own => own,
        }
    }

    /// How long an endpoint takes to get its whole share.
    pub fn slow_start(&self) -> Option<Duration> {
        self.slow_start
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
        let Self { slow_start, .. } = *self;
        self.set.pick(request, PickMode { balance: self.balance(), slow_start, checks: self.checks() })
    }

    /// Whether an endpoint passes the pool's check; true where it has none.
    pub fn passes_check(&self, endpoint: &Endpoint) -> bool {
        endpoint.passes(self.checks())
    }

    /// Whether an endpoint should get requests: it is not ejected, not on trial, and passes the pool's check.
    pub fn is_usable(&self, endpoint: &Endpoint, now: Instant) -> bool {
        self.passes_check(endpoint) && endpoint.is_usable(now)
    }

    /// The bit of its check.
    pub(super) fn checks(&self) -> u32 {
        self.slot().map_or(0, |slot| 1 << slot)
    }

    pub(super) fn slot(&self) -> Option<u8> {
        Some(self.slot.load(Ordering::Relaxed)).filter(|slot| *slot != UNCHECKED)
    }

    /// There is room for its check now. Whoever picks meanwhile sees it or does not: until then nothing was checked.
    pub(super) fn set_slot(&self, slot: u8) {
        self.slot.store(slot, Ordering::Relaxed);
    }

    /// An attempt at an endpoint began then and has its answer now. Costs nothing where the pool is not balanced by that.
    pub fn measure(&self, endpoint: &Endpoint, began: Instant, now: Instant) {
        if self.balance() == Balance::Ewma {
            endpoint.latency().observe(now.saturating_duration_since(began), now);
        }
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

    pub(super) fn has_ring(&self) -> bool {
        self.balance == Balance::Ring
    }
}

impl Keyed for Pool {
    type Key = PoolKey;

    fn key(&self) -> &PoolKey {
        &self.config.key
    }
}
