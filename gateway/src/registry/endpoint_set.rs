//! The endpoints of one Service port, published in generations.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use arc_swap::{ArcSwap, ArcSwapOption};
use pingora_load_balancing::selection::SelectionAlgorithm;
use pingora_load_balancing::selection::algorithms::RoundRobin;
use sluice_config::{EndpointSetKey, Report};

use super::endpoint::{Endpoint, MEMORY};
use super::ring::Ring;
use crate::process::reporter::Reporter;

/// The usable endpoints, shared by all pools on the Service port. Never replaced; new generations
/// are published into it.
pub struct EndpointSet {
    key: EndpointSetKey,
    current: ArcSwap<SetGeneration>,
    /// Built once a pool needs it. May be a few generations behind.
    pub(super) ring: ArcSwapOption<Ring>,
    pub(super) ring_wanted: AtomicBool,
    /// The set is queued for a rebuild of its ring.
    pub(super) ring_queued: AtomicBool,
    reporter: Reporter,
}

/// The members at one time, with the state of round robin.
pub(super) struct SetGeneration {
    pub(super) number: u64,
    /// Sorted by address, each address once.
    pub(super) endpoints: Box<[Arc<Endpoint>]>,
    /// Index of the first turn.
    start: usize,
    turn: RoundRobin,
}

impl SetGeneration {
    fn new(number: u64, endpoints: Box<[Arc<Endpoint>]>, start: usize) -> Self {
        Self { number, endpoints, start, turn: RoundRobin::new() }
    }

    /// Returns the index next in turn and advances. There must be an endpoint.
    pub(super) fn next_turn(&self) -> usize {
        self.start.wrapping_add(self.turn.next(&[]) as usize) % self.endpoints.len()
    }

    /// Returns the member with this address.
    pub(super) fn member(&self, address: SocketAddr) -> Option<&Arc<Endpoint>> {
        let index = self.endpoints.binary_search_by_key(&address, |endpoint| endpoint.address()).ok()?;
        Some(&self.endpoints[index])
    }

    /// Returns the index at which the next generation starts: the endpoint next in turn, or the one
    /// after it by address if it is gone. Starting at the first endpoint after every change would
    /// send everything to the first few while changes are frequent; carrying the index over would
    /// skip as the length changes. Continuing by address gives each remaining endpoint exactly one
    /// turn per round, whatever happens to the others.
    fn carry_over(&self, next: &[Arc<Endpoint>]) -> usize {
        if next.is_empty() {
            return 0;
        }
        if self.endpoints.is_empty() {
            // Gateways that start together must not all begin with the same endpoint.
            return fastrand::usize(..next.len());
        }
        let due = self.endpoints[self.next_turn()].address();
        next.partition_point(|endpoint| endpoint.address() < due) % next.len()
    }
}

impl EndpointSet {
    pub(super) fn new(key: EndpointSetKey, reporter: Reporter) -> Self {
        Self {
            key,
            current: ArcSwap::from_pointee(SetGeneration::new(0, Box::default(), 0)),
            ring: ArcSwapOption::empty(),
            ring_wanted: AtomicBool::new(false),
            ring_queued: AtomicBool::new(false),
            reporter,
        }
    }

    /// Returns the Service port.
    pub fn key(&self) -> &EndpointSetKey {
        &self.key
    }

    /// Returns the current members.
    pub fn endpoints(&self) -> Vec<Arc<Endpoint>> {
        self.current.load().endpoints.to_vec()
    }

    /// Returns the current number of members.
    pub fn len(&self) -> usize {
        self.current.load().endpoints.len()
    }

    /// Returns whether there is currently no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ejects an endpoint that does not accept connections, and reports it.
    pub fn failed(&self, endpoint: &Endpoint, now: Instant) {
        if let Some(duration) = endpoint.failed(now) {
            let address = endpoint.address();
            (self.reporter)(Report::EndpointEjected { set: self.key.clone(), address, duration });
        }
    }

    pub(super) fn current(&self) -> arc_swap::Guard<Arc<SetGeneration>> {
        self.current.load()
    }

    fn publish(&self, endpoints: Box<[Arc<Endpoint>]>) {
        let old = self.current.load();
        let start = old.carry_over(&endpoints);
        self.current.store(Arc::new(SetGeneration::new(old.number + 1, endpoints, start)));
    }
}

impl fmt::Debug for EndpointSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointSet").field("key", &self.key).field("endpoints", &self.endpoints()).finish()
    }
}

/// The writing side of a set. There is one, behind the registry's lock.
pub(super) struct Members {
    set: Arc<EndpointSet>,
    /// Endpoints that left, and when, while their state must be kept. Usually empty.
    departed: BTreeMap<SocketAddr, (Instant, Arc<Endpoint>)>,
}

impl Members {
    pub(super) fn new(set: EndpointSet) -> Self {
        Self { set: Arc::new(set), departed: BTreeMap::new() }
    }

    pub(super) fn set(&self) -> &Arc<EndpointSet> {
        &self.set
    }

    /// Publishes a generation with these members. Present endpoints keep their state. Returns
    /// whether anything changed.
    pub(super) fn replace(&mut self, endpoints: &[sluice_config::Endpoint], now: Instant) -> bool {
        let old = self.set.current.load_full();
        let next: Box<[_]> = endpoints.iter().map(|config| self.endpoint(&old, config, now)).collect();
        let next = sorted(next);
        if next.len() == old.endpoints.len()
            && next.iter().zip(&old.endpoints).all(|(a, b)| Arc::ptr_eq(a, b))
        {
            return false;
        }
        let find = |address| next.binary_search_by_key(&address, |endpoint| endpoint.address());
        let stays = |address| find(address).is_ok();
        let is_next = |one: &Arc<Endpoint>| find(one.address()).is_ok_and(|at| Arc::ptr_eq(one, &next[at]));
        next.iter().for_each(|endpoint| endpoint.join());
        old.endpoints.iter().filter(|endpoint| !is_next(endpoint)).for_each(|endpoint| endpoint.leave());
        let left = old.endpoints.iter().map(|endpoint| (endpoint.address(), (now, endpoint.clone())));
        self.departed.extend(left.filter(|(address, _)| !stays(*address)));
        self.departed.retain(|address, (left, endpoint)| {
            let fails = !endpoint.passes(u32::MAX) && now.saturating_duration_since(*left) < MEMORY;
            !stays(*address) && (fails || endpoint.must_be_kept(now))
        });
        self.set.publish(next);
        true
    }

    /// Forgets the results of a check that was stopped.
    pub(super) fn forget_check(&self, slot: u8) {
        let departed = self.departed.values().map(|(_, endpoint)| endpoint);
        self.set
            .current()
            .endpoints
            .iter()
            .chain(departed)
            .for_each(|endpoint| endpoint.set_passes(slot, true));
    }

    /// Returns the present endpoint or a new one. An address in another zone belongs to another
    /// Pod, whose health is unknown.
    fn endpoint(&self, old: &SetGeneration, config: &sluice_config::Endpoint, now: Instant) -> Arc<Endpoint> {
        let same = |known: &&Arc<Endpoint>| {
            known.address() == config.address && known.zone() == config.zone.as_ref()
        };
        let known = old
            .member(config.address)
            .filter(same)
            .or_else(|| self.departed.get(&config.address).map(|(_, endpoint)| endpoint).filter(same));
        known.cloned().unwrap_or_else(|| {
            let endpoint = Endpoint::new(config.address, config.zone.clone());
            // If all endpoints are new, none needs a slow start.
            if !old.endpoints.is_empty() {
                endpoint.begin_slowly(now);
            }
            Arc::new(endpoint)
        })
    }
}

impl Drop for Members {
    /// The set is no longer configured, so it is unknown to which Pod an address belongs.
    fn drop(&mut self) {
        self.set.current().endpoints.iter().for_each(|endpoint| endpoint.leave());
    }
}

/// Ensures the contract, sorted and unique: otherwise lookups by address would fail silently.
fn sorted(endpoints: Box<[Arc<Endpoint>]>) -> Box<[Arc<Endpoint>]> {
    if endpoints.is_sorted_by(|one, next| one.address() < next.address()) {
        return endpoints;
    }
    let mut endpoints = endpoints.into_vec();
    endpoints.sort_by_key(|endpoint| endpoint.address());
    endpoints.dedup_by_key(|endpoint| endpoint.address());
    endpoints.into()
}
