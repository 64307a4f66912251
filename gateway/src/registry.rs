//! The shared upstream registry: the endpoints of each Service port, their health, and the choice
//! of an endpoint for a request.
//!
//! It uses Pingora's selectors and health checks, but not its `LoadBalancer`, which needs state, a
//! service and a full rebuild per pool. Here there are thousands of pools with few endpoints each,
//! which change constantly.
//!
//! An [`Endpoint`] is one address of a Service port. It keeps its health across generations of its
//! [`EndpointSet`]. A set is published as a whole by one atomic swap, at a cost proportional to its
//! own size, and shared by every [`Pool`] on the Service port. A pool handle sees all later
//! endpoint changes. Compiled routes therefore hold handles, and the request path needs no lookup
//! by name and no lock.

mod balance;
mod check;
mod checked;
mod clock;
mod description;
mod endpoint;
mod endpoint_set;
mod group;
mod hosts;
mod latency;
mod own;
mod pick;
mod pool;
mod pools;
mod prober;
mod ring;
mod rings;
mod sessions;
mod set_entry;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sluice_config::{ByKey, Change, Code, Delta, EndpointSetKey, HealthCheck, PoolKey, Refusal, Subject};

pub use checked::{CheckedEndpoint, HealthCheckResults};
pub use description::{EndpointDescription, Health, HealthCounts, PoolDescription};
pub use endpoint::{Endpoint, EndpointAdmission, InFlight};
pub use endpoint_set::EndpointSet;
pub use hosts::{HostAddresses, HostLookUp, RequestHost};
pub use own::{OwnEndpoint, OwnListener};
pub use pick::{PickError, PickKey, PickRequest};
pub use pool::Pool;
pub use prober::Prober;
pub use sessions::Sessions;

use crate::process::reporter::Reporter;

use balance::DefaultBalance;
use checked::Checks;
use hosts::RequestHosts;
use own::{Lookups, OwnListeners, Owner};
use prober::ProberHandle;
use rings::Rings;
use set_entry::SetEntry;

/// All endpoint sets and pools.
pub struct Registry {
    state: Mutex<State>,
    rings: Rings,
    default_balance: Arc<DefaultBalance>,
    hosts: RequestHosts,
    prober: ProberHandle,
    /// The prober until [`take_prober`](Registry::take_prober) returns it.
    idle_prober: Mutex<Option<Prober>>,
    published: AtomicU64,
    /// The endpoints in `refused` have changed since the last
    /// [`own_endpoints`](Registry::own_endpoints).
    refused_changed: AtomicBool,
    reporter: Reporter,
}

/// State for applying deltas and for introspection. Requests use handles and never access it.
#[derive(Default)]
struct State {
    sets: ByKey<SetEntry>,
    pools: ByKey<Arc<Pool>>,
    own: OwnListeners,
    checks: Checks,
    /// Pools whose checks await capacity, in order of arrival. Usually empty.
    waiting: Vec<PoolKey>,
}

impl Registry {
    /// Creates an empty registry.
    pub fn new(reporter: Reporter) -> Self {
        let (prober, idle_prober) = Prober::new();
        Self {
            prober,
            idle_prober: Mutex::new(Some(idle_prober)),
            state: Mutex::default(),
            rings: Rings::new(&reporter),
            default_balance: Arc::default(),
            hosts: RequestHosts::new(),
            published: AtomicU64::new(0),
            refused_changed: AtomicBool::new(false),
            reporter,
        }
    }

    /// Adds and updates endpoint sets and pools. Removals are applied by [`remove`](Self::remove),
    /// which the caller calls last, when no host refers to them any more. A pool whose check cannot
    /// be created is refused and serves without it; [`remove`](Self::remove) may free capacity for
    /// it.
    pub fn apply(&self, delta: &Delta) -> Vec<Refusal> {
        if let Some(settings) = &delta.settings {
            self.default_balance.set(settings.balance);
        }
        let mut state = self.lock();
        let now = Instant::now();
        let State { sets, own, .. } = &mut *state;
        let own = own.lookups();
        for change in &delta.endpoint_sets {
            if let Change::Put(key, set) = change {
                let entry = SetEntry::of(sets, key, &self.reporter);
                entry.configured = true;
                self.publish(entry, &own, &set.endpoints, now);
            }
        }
        let mut refused = Vec::new();
        for change in &delta.pools {
            if let Change::Put(key, pool) = change
                && let Err(error) = self.put_pool(&mut state, pool)
            {
                refused.push(Refusal {
                    subject: Subject::Pool(key.clone()),
                    origin: None,
                    code: Code::HealthCheckRefused,
                    reason: error.to_string(),
                });
            }
        }
        refused
    }

    /// Applies the removals of a delta. A pool on a removed set has no endpoints. A set without
    /// pools keeps its endpoints, for requests that have found their route but not their endpoint.
    /// Returns the pools whose checks were refused and start now.
    pub fn remove(&self, delta: &Delta) -> Vec<Subject> {
        let mut state = self.lock();
        let State { sets, pools, own, waiting, .. } = &mut *state;
        let own = own.lookups();
        let now = Instant::now();
        for change in &delta.pools {
            if let Change::Remove(key) = change
                && let Some(pool) = pools.remove(key)
            {
                self.forget_pool(sets, &pool);
                waiting.retain(|waits| waits != key);
            }
        }
        for change in &delta.endpoint_sets {
            if let Change::Remove(key) = change
                && let Some(entry) = sets.get_mut(key)
            {
                entry.configured = false;
                if entry.is_unused() {
                    self.refused_changed.fetch_or(!entry.refused.is_empty(), Ordering::Relaxed);
                    sets.remove(key);
                } else {
                    self.publish(entry, &own, &[], now);
                }
            }
        }
        self.begin_waiting(&mut state)
    }

    /// Sets the addresses on which the gateway listens. Endpoints with these addresses are left out
    /// of all sets, including those that were added before.
    pub fn set_own_listeners(&self, listeners: Vec<OwnListener>) {
        let mut state = self.lock();
        let State { sets, own, .. } = &mut *state;
        if !own.set(listeners) {
            return;
        }
        self.prober.set_own(own.clone());
        self.hosts.clear();
        let own = own.lookups();
        let now = Instant::now();
        let keys: Vec<_> = sets.values().map(|entry| entry.members.set().key().clone()).collect();
        for key in keys {
            let Some(entry) = sets.get_mut(&key) else { continue };
            let members = entry.members.set().endpoints();
            let as_configured = |endpoint: &Arc<Endpoint>| sluice_config::Endpoint {
                address: endpoint.address(),
                zone: endpoint.zone().cloned(),
            };
            let refused = entry.refused.iter().map(|(endpoint, _)| endpoint.clone());
            let mut all: Vec<_> = members.iter().map(as_configured).chain(refused).collect();
            all.sort();
            // Earlier results refer to other listeners.
            entry.unsure = true;
            self.publish(entry, &own, &all, now);
        }
    }

    /// Returns the endpoints left out because they are listeners of the gateway, or `None` if they
    /// have not changed since the last call.
    pub fn own_endpoints(&self) -> Option<Vec<OwnEndpoint>> {
        if !self.refused_changed.swap(false, Ordering::Relaxed) {
            return None;
        }
        let state = self.lock();
        let of_set = |entry: &SetEntry| {
            let set = entry.members.set().key().clone();
            let endpoint = |(refused, listener): &(sluice_config::Endpoint, Arc<str>)| OwnEndpoint {
                set: set.clone(),
                address: refused.address,
                listener: listener.clone(),
            };
            entry.refused.iter().map(endpoint).collect::<Vec<_>>()
        };
        Some(state.sets.values().filter(|entry| !entry.refused.is_empty()).flat_map(of_set).collect())
    }

    /// Returns a handle on a pool, for routes to keep. Not for the request path.
    pub fn pool(&self, key: &PoolKey) -> Option<Arc<Pool>> {
        self.lock().pools.get(key).cloned()
    }

    /// Sets the resolver for hosts that requests determine.
    pub fn look_up_hosts_with(&self, look_up: HostLookUp) {
        self.hosts.set_look_up(look_up);
    }

    /// Returns the pool of a host that a request has determined, looked up within `limit`; `None`
    /// if it has no address, or only those of listeners that are not public.
    pub async fn pool_of_host(&self, host: &RequestHost, limit: Option<Duration>) -> Option<Arc<Pool>> {
        let is_allowed = |key: &EndpointSetKey, address| {
            let own = self.lock().own.clone();
            own.lookups().ask_for(key, address) == Owner::Other
        };
        self.hosts.pool(host, limit, &self.default_balance, is_allowed).await
    }

    /// Returns a handle on an endpoint set, for the prober. Not for the request path.
    pub fn endpoint_set(&self, key: &EndpointSetKey) -> Option<Arc<EndpointSet>> {
        self.lock().sets.get(key).map(|entry| entry.members.set().clone())
    }

    /// Returns how many endpoint sets were published since the start.
    pub fn published(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }

    /// Returns how many rings were built since the start.
    pub fn rings_built(&self) -> u64 {
        self.rings.built()
    }

    /// Returns every pool with its endpoints and their health, sorted by name.
    pub fn describe(&self) -> Vec<PoolDescription> {
        let pools: Vec<Arc<Pool>> = self.lock().pools.values().cloned().collect();
        let now = Instant::now();
        let mut described: Vec<_> = pools.iter().map(|pool| PoolDescription::of(pool, now)).collect();
        described.sort_by(|one, other| one.pool.cmp(&other.pool));
        described
    }

    /// Returns the endpoint sets without endpoints.
    pub(crate) fn empty_sets(&self) -> HashSet<EndpointSetKey> {
        let state = self.lock();
        let empty = state.sets.values().filter(|entry| entry.members.set().is_empty());
        empty.map(|entry| entry.members.set().key().clone()).collect()
    }

    /// Returns the number of endpoints in each state of health. Each endpoint counts once, however
    /// many pools use it.
    pub fn health(&self) -> HealthCounts {
        let sets: Vec<Arc<EndpointSet>> =
            self.lock().sets.values().map(|entry| entry.members.set().clone()).collect();
        HealthCounts::of(&sets, Instant::now())
    }

    /// Returns the task that checks endpoints. `None` after the first call.
    pub fn take_prober(&self) -> Option<Prober> {
        self.idle_prober.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the results of active checks.
    pub fn checked(&self) -> HealthCheckResults {
        let state = self.lock();
        let endpoints = state.sets.values().flat_map(|entry| {
            let generation = entry.members.set().current();
            let of_check = |(slot, check): (u8, &Arc<HealthCheck>)| {
                let (set, check) = (entry.members.set().key(), check.to_string());
                let of_endpoint = |endpoint: &Arc<Endpoint>| CheckedEndpoint {
                    set: set.clone(),
                    address: endpoint.address(),
                    check: check.clone(),
                    is_healthy: endpoint.passes(1 << slot),
                };
                generation.endpoints.iter().map(of_endpoint).collect::<Vec<_>>()
            };
            entry.slots.all().flat_map(of_check).collect::<Vec<_>>()
        });
        let (passed, failed) = self.prober.counts();
        HealthCheckResults { endpoints: endpoints.collect(), passed, failed }
    }

    fn publish(
        &self,
        entry: &mut SetEntry,
        own: &Lookups<'_>,
        endpoints: &[sluice_config::Endpoint],
        now: Instant,
    ) {
        let refused = entry.find_own(own, endpoints);
        if !refused.is_empty() || !entry.refused.is_empty() {
            self.refused_changed.store(true, Ordering::Relaxed);
        }
        entry.refused = refused;
        // Copies the endpoints only if some are left out.
        let others: Option<Vec<_>> = (!entry.refused.is_empty()).then(|| {
            let ours: HashSet<_> = entry.refused.iter().map(|(endpoint, _)| endpoint.address).collect();
            endpoints.iter().filter(|endpoint| !ours.contains(&endpoint.address)).cloned().collect()
        });
        if entry.members.replace(others.as_deref().unwrap_or(endpoints), now) {
            self.published.fetch_add(1, Ordering::Relaxed);
            self.rings.refresh(entry.members.set());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every statement, so a panic leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Registry")
            .field("sets", &state.sets.len())
            .field("pools", &state.pools.len())
            .finish_non_exhaustive()
    }
}
