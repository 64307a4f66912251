//! Choices that look at how endpoints are: the sooner of two, and the one with the fewest requests.
//!
//! Two drawn endpoints are enough to keep clear of slow ones, and several gateways that look at the same numbers do not all
//! run to the same endpoint. What a choice cannot settle is left to the turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use sluice_config::Balance;

use super::endpoint::Endpoint;
use super::endpoint_set::Generation;

/// Endpoints that are compared for the fewest requests: from the one whose turn it is on.
const COMPARED: usize = 32;

/// How endpoints are chosen where a pool leaves that open. Written by the applying of deltas, read by picks.
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

/// Of two drawn endpoints the one that answers sooner, or the other one where that is not accepted.
pub(super) fn sooner(
    generation: &Generation,
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

/// Whether a request would be answered sooner by `one`: its time for a response, once for each request that it has and for
/// this one. One that has not answered yet counts as fast as the other, so that a new endpoint is not run over.
fn is_sooner(one: &Endpoint, other: &Endpoint, now: Instant) -> bool {
    let (of_one, of_other) = match (one.latency().micros(now), other.latency().micros(now)) {
        (Some(one), Some(other)) => (one, other),
        _ => (1.0, 1.0),
    };
    let load = |micros: f32, endpoint: &Endpoint| micros * (endpoint.in_flight() as f32 + 1.0);
    load(of_one, one) < load(of_other, other)
}

/// The acceptable endpoint with the fewest requests; of several the first in turn. `accept` is asked of many and must not
/// take anything up.
pub(super) fn fewest(generation: &Generation, accept: impl Fn(&Endpoint) -> bool) -> Option<&Arc<Endpoint>> {
    let (before, after) = generation.endpoints.split_at(generation.next_turn());
    let compared = after.iter().chain(before).take(COMPARED);
    compared.filter(|endpoint| accept(endpoint)).min_by_key(|endpoint| endpoint.in_flight())
}
