//! The registry for operators: pools with endpoints and health for the admin listener, and counts
//! for metrics.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use sluice_config::{Balance, UpstreamProtocol};

use super::endpoint::Endpoint;
use super::endpoint_set::EndpointSet;
use super::pool::Pool;

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolDescription {
    /// `namespace/service:port (policy)`.
    pub pool: String,
    /// The protocol to the endpoints.
    pub protocol: UpstreamProtocol,
    /// The load balancing strategy.
    pub balance: Balance,
    /// Sorted by address.
    pub endpoints: Vec<EndpointDescription>,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndpointDescription {
    /// Pod address and port.
    pub address: SocketAddr,
    /// The zone of the endpoint.
    pub zone: Option<Arc<str>>,
    /// Whether it receives requests.
    pub health: Health,
    /// Rest of the ejection in milliseconds.
    pub ejected_for_ms: Option<u64>,
    /// Ejections since the last success.
    pub failures: u8,
    /// Open requests.
    pub in_flight: u32,
}

/// Whether an endpoint receives requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// It receives requests.
    Healthy,
    /// Temporarily excluded after connection failures.
    Ejected,
    /// Excluded until it passes the active checks of the pool again.
    Failing,
}

/// The number of endpoints in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HealthCounts {
    /// [`Health::Healthy`].
    pub healthy: usize,
    /// [`Health::Ejected`].
    pub ejected: usize,
    /// [`Health::Failing`].
    pub failing: usize,
}

impl Health {
    fn of(endpoint: &Endpoint, checks: u32, now: Instant) -> Self {
        if !endpoint.passes(checks) {
            Self::Failing
        } else if endpoint.ejected_for(now).is_some() {
            Self::Ejected
        } else {
            Self::Healthy
        }
    }
}

impl PoolDescription {
    pub(super) fn of(pool: &Pool, now: Instant) -> Self {
        let endpoints = pool.set().current();
        Self {
            pool: pool.key().to_string(),
            protocol: pool.protocol(),
            balance: pool.balance(),
            endpoints: endpoints
                .endpoints
                .iter()
                .map(|one| EndpointDescription::of(one, pool.checks(), now))
                .collect(),
        }
    }
}

impl EndpointDescription {
    fn of(endpoint: &Endpoint, checks: u32, now: Instant) -> Self {
        Self {
            address: endpoint.address(),
            zone: endpoint.zone().cloned(),
            health: Health::of(endpoint, checks, now),
            ejected_for_ms: endpoint.ejected_for(now).map(|left| left.as_millis() as u64),
            failures: endpoint.failures(),
            in_flight: endpoint.in_flight(),
        }
    }
}

impl HealthCounts {
    pub(super) fn of(sets: &[Arc<EndpointSet>], now: Instant) -> Self {
        let mut counts = Self::default();
        for set in sets {
            for endpoint in &set.current().endpoints {
                // An endpoint that fails the check of any pool counts as failing.
                match Health::of(endpoint, u32::MAX, now) {
                    Health::Healthy => counts.healthy += 1,
                    Health::Ejected => counts.ejected += 1,
                    Health::Failing => counts.failing += 1,
                }
            }
        }
        counts
    }
}
