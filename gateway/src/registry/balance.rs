//! Choices by the state of endpoints: lower latency, and fewest requests.
//!
//! Comparing two random endpoints suffices to avoid slow ones, and prevents several gateways with
//! the same measurements from choosing the same endpoint. If a strategy selects none, round robin
//! decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use sluice_config::Balance;

use super::endpoint::Endpoint;
use super::endpoint_set::SetGeneration;

/// Maximum number of endpoints compared for the fewest requests, starting with the one next in
/// turn.
const COMPARED: usize = 32;

/// The strategy of pools without one of their own. Written when deltas are applied, read by picks.
#[derive(Debug, Default)]
pub(super) struct DefaultBalance(AtomicU8);

impl DefaultBalance {
    pub(super) fn set(&self, balance: Balance) {
        let number = match balance {
            Balance::Inherit | Balance::RoundRobin | Balance::Ring => 0,
            Balance::Ewma => 1,
            Balance::LeastConnections => 2,
        };
        self.0.store(number, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Balance {
        match self.0.load(Ordering::Relaxed) {
            1 => Balance::Ewma,
            2 => Balance::LeastConnections,
            _ => Balance::RoundRobin,
        }
    }
}

/// Returns the endpoint of lower expected latency of two random ones, or the other if `accept`
/// rejects it.
pub(super) fn sooner(
    generation: &SetGeneration,
    now: Instant,
    accept: impl Fn(&Endpoint) -> bool,
) -> Option<&Arc<Endpoint>> {
    let endpoints = &generation.endpoints;
    if endpoints.len() < 2 {
        return None;
    }
    let one = fastrand::usize(..endpoints.len());
    let other = fastrand::usize(..endpoints.len() - 1);
    let other = if other < one { other } else { other + 1 };
    let (one, other) = (&endpoints[one], &endpoints[other]);
    let pair = if is_sooner(other, one, now) { [other, one] } else { [one, other] };
    pair.into_iter().find(|endpoint| accept(endpoint))
}

/// Returns whether `one` would respond sooner: its average response time, times its open requests
/// plus this one. An endpoint without a response so far counts as equally fast, so that new
/// endpoints are not flooded.
fn is_sooner(one: &Endpoint, other: &Endpoint, now: Instant) -> bool {
    let (of_one, of_other) = match (one.latency().micros(now), other.latency().micros(now)) {
        (Some(one), Some(other)) => (one, other),
        _ => (1.0, 1.0),
    };
    let load = |micros: f32, endpoint: &Endpoint| micros * (endpoint.in_flight() as f32 + 1.0);
    load(of_one, one) < load(of_other, other)
}

/// Returns the acceptable endpoint with the fewest requests; of several the first in turn. `accept`
/// is called for many endpoints and must not have side effects.
pub(super) fn fewest(
    generation: &SetGeneration,
    accept: impl Fn(&Endpoint) -> bool,
) -> Option<&Arc<Endpoint>> {
    let (before, after) = generation.endpoints.split_at(generation.next_turn());
    let compared = after.iter().chain(before).take(COMPARED);
    compared.filter(|endpoint| accept(endpoint)).min_by_key(|endpoint| endpoint.in_flight())
}
