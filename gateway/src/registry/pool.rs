//! A pool: an endpoint set and the policy for its use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use sluice_config::{Balance, Keyed, PoolKey, UpstreamProtocol};

use super::balance::DefaultBalance;
use super::endpoint::Endpoint;
use super::endpoint_set::EndpointSet;
use super::pick::{PickError, PickMode, PickRequest};
use super::sessions::Sessions;

/// Endpoints under one policy. Routes hold it and see endpoint changes through it.
#[derive(Debug)]
pub struct Pool {
    config: Arc<sluice_config::Pool>,
    set: Arc<EndpointSet>,
    // Copied from the configuration, which with thousands of pools is not in the cache.
    protocol: UpstreamProtocol,
    balance: Balance,
    slow_start: Option<Duration>,
    default_balance: Arc<DefaultBalance>,
    /// Slot of its active check, or [`UNCHECKED`].
    slot: AtomicU8,
}

/// Marks a pool without a check, or whose check awaits capacity.
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

    /// Returns the identity of the pool.
    pub fn key(&self) -> &PoolKey {
        &self.config.key
    }

    /// Returns the protocol to the endpoints.
    pub fn protocol(&self) -> UpstreamProtocol {
        self.protocol
    }

    /// Returns the strategy in force; never [`Balance::Inherit`].
    pub fn balance(&self) -> Balance {
        match self.balance {
            Balance::Inherit => self.default_balance.get(),
            own => own,
        }
    }

    /// Returns the time after which an endpoint gets its full share.
    pub fn slow_start(&self) -> Option<Duration> {
        self.slow_start
    }

    /// Returns the endpoints, shared with other pools on the Service port.
    pub fn set(&self) -> &Arc<EndpointSet> {
        &self.set
    }

    /// Returns the current number of endpoints.
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// Returns whether there is currently no endpoint.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// Returns the endpoint for the next attempt of a request.
    ///
    /// # Errors
    /// The pool has no usable endpoint, or the request has tried all of them.
    pub fn pick(&self, request: &PickRequest<'_>) -> Result<Arc<Endpoint>, PickError> {
        let Self { slow_start, .. } = *self;
        self.set.pick(request, PickMode { balance: self.balance(), slow_start, checks: self.checks() })
    }

    /// Returns whether an endpoint passes the pool's check; true without a check.
    pub fn passes_check(&self, endpoint: &Endpoint) -> bool {
        endpoint.passes(self.checks())
    }

    /// Returns whether an endpoint takes a request now: it passes the pool's check, has room, and
    /// is not ejected. On trial, only one caller gets true.
    pub fn admits(&self, endpoint: &Endpoint, now: Instant) -> bool {
        self.passes_check(endpoint) && endpoint.has_room() && endpoint.admits(now)
    }

    /// Returns the bit of its check.
    pub(super) fn checks(&self) -> u32 {
        self.slot().map_or(0, |slot| 1 << slot)
    }

    pub(super) fn slot(&self) -> Option<u8> {
        Some(self.slot.load(Ordering::Relaxed)).filter(|slot| *slot != UNCHECKED)
    }

    /// Enables its check once there is capacity. Concurrent picks may still ignore it.
    pub(super) fn set_slot(&self, slot: u8) {
        self.slot.store(slot, Ordering::Relaxed);
    }

    /// Records the response time of an attempt. Free of cost unless the pool balances by it.
    pub fn measure(&self, endpoint: &Endpoint, began: Instant, now: Instant) {
        if self.balance() == Balance::Ewma {
            endpoint.latency().observe(now.saturating_duration_since(began), now);
        }
    }

    /// Returns the endpoint to which a key belongs, whatever its health: the one to which affinity
    /// mode `balanced` binds a session. `None` for a pool without a ring or without endpoints.
    pub fn owner(&self, key: &[u8]) -> Option<Arc<Endpoint>> {
        if !self.has_ring() {
            return None;
        }
        let generation = self.set.current();
        self.set.on_ring(&generation, key, |_| true).cloned()
    }

    /// Ejects an endpoint ([`EndpointSet::failed`]).
    pub fn failed(&self, endpoint: &Endpoint, now: Instant) {
        self.set.failed(endpoint, now);
    }

    /// Creates the cookies of affinity mode `persistent`, for a backend name of the form
    /// `namespace-service-port`. Called once per route.
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
