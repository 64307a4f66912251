//! Active health checks: one task with one timer queue for all endpoint sets that use them.
//!
//! The checks are Pingora's or have its interface. A set is inspected for new endpoints once per
//! interval. Each endpoint has its own entry in the queue, so that checks spread over time instead
//! of coming in bursts, until it leaves the set. An endpoint is healthy until its checks fail.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use pingora_core::protocols::l4::socket::SocketAddr as PingoraAddr;
use pingora_load_balancing::health_check::HealthCheck;
use pingora_load_balancing::{Backend, Extensions};
use sluice_config::EndpointSetKey;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::endpoint::Endpoint;
use super::endpoint_set::EndpointSet;
use super::own::{OwnListeners, Owner};

/// Maximum number of concurrent checks; the others wait.
const CONCURRENT: usize = 64;

/// How a set is checked. Sets with equal policies share one: creating an HTTP check takes
/// milliseconds and hundreds of kilobytes.
pub(super) struct ProbePolicy {
    /// Time between two checks of an endpoint.
    pub(super) interval: Duration,
    /// Time limit for one check.
    pub(super) timeout: Duration,
    /// Port of the check; `None` is the port of the endpoint.
    pub(super) port: Option<u16>,
    /// The check and the number of consecutive results that change the state.
    pub(super) check: Box<dyn HealthCheck + Send + Sync>,
}

/// Controls the prober, which ends when the last handle is dropped.
#[derive(Clone)]
pub(super) struct ProberHandle {
    commands: mpsc::UnboundedSender<Command>,
    counts: Arc<Counts>,
    own: Arc<ArcSwap<OwnListeners>>,
}

/// Number of checks since the start.
#[derive(Default)]
struct Counts {
    passed: AtomicU64,
    failed: AtomicU64,
}

enum Command {
    Watch(Arc<EndpointSet>, u8, Arc<ProbePolicy>),
    Unwatch(EndpointSetKey, u8),
}

impl ProberHandle {
    /// Starts to check the set's endpoints. Replaces the previous check in this slot.
    pub(super) fn watch(&self, set: Arc<EndpointSet>, slot: u8, policy: Arc<ProbePolicy>) {
        self.send(Command::Watch(set, slot, policy));
    }

    /// Stops the check in this slot. Its endpoints count as healthy again.
    pub(super) fn unwatch(&self, set: EndpointSetKey, slot: u8) {
        self.send(Command::Unwatch(set, slot));
    }

    /// Returns the number of checks passed and failed.
    pub(super) fn counts(&self) -> (u64, u64) {
        let Counts { passed, failed } = &*self.counts;
        (passed.load(Ordering::Relaxed), failed.load(Ordering::Relaxed))
    }

    /// Sets the gateway's own listeners, to which no check connects.
    pub(super) fn set_own(&self, own: OwnListeners) {
        self.own.store(Arc::new(own));
    }

    fn send(&self, command: Command) {
        // Fails only if the prober has ended, which needs no action.
        let _ = self.commands.send(command);
    }
}

/// The task that runs checks.
pub struct Prober {
    commands: mpsc::UnboundedReceiver<Command>,
    counts: Arc<Counts>,
    own: Arc<ArcSwap<OwnListeners>>,
    watches: HashMap<WatchKey, Watch>,
    due: BinaryHeap<Reverse<Due>>,
    running: FuturesUnordered<BoxFuture<'static, Checked>>,
    serial: u64,
}

/// A set and the slot of one of its checks.
type WatchKey = (EndpointSetKey, u8);

/// A set that is checked.
struct Watch {
    set: Weak<EndpointSet>,
    policy: Arc<ProbePolicy>,
    serial: u64,
    endpoints: HashMap<SocketAddr, Probed>,
}

struct Probed {
    endpoint: Arc<Endpoint>,
    serial: u64,
    /// Consecutive results that contradict the current state.
    against: usize,
}

/// A due action: inspect a set (without `address`), or check one of its endpoints.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone)]
struct Due {
    at: Instant,
    /// Serial of the watch or endpoint for which the entry was made. Outdated entries are
    /// recognised by it and dropped.
    serial: u64,
    address: Option<SocketAddr>,
    watch: WatchKey,
}

struct Checked {
    due: Due,
    passed: bool,
}

impl Prober {
    /// Creates a prober and its handle.
    pub(super) fn new() -> (ProberHandle, Self) {
        let (sender, commands) = mpsc::unbounded_channel();
        let (counts, own) = (Arc::<Counts>::default(), Arc::<ArcSwap<OwnListeners>>::default());
        let prober = Self {
            commands,
            counts: counts.clone(),
            own: own.clone(),
            watches: HashMap::new(),
            due: BinaryHeap::new(),
            running: FuturesUnordered::new(),
            serial: 0,
        };
        (ProberHandle { commands: sender, counts, own }, prober)
    }

    /// Runs until the last handle is dropped.
    pub async fn run(mut self) {
        loop {
            let next = self.due.peek().map(|Reverse(due)| due.at);
            let has_room = self.running.len() < CONCURRENT;
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(Command::Watch(set, slot, policy)) => self.watch(&set, slot, policy),
                    Some(Command::Unwatch(set, slot)) => self.unwatch(&(set, slot)),
                    None => return,
                },
                Some(checked) = self.running.next() => self.judge(checked).await,
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() && has_room => {
                    if let Some(Reverse(due)) = self.due.pop() {
                        self.perform(due);
                    }
                }
            }
        }
    }

    fn watch(&mut self, set: &Arc<EndpointSet>, slot: u8, policy: Arc<ProbePolicy>) {
        let key = (set.key().clone(), slot);
        self.unwatch(&key);
        self.serial += 1;
        let watch =
            Watch { set: Arc::downgrade(set), policy, serial: self.serial, endpoints: HashMap::new() };
        self.watches.insert(key.clone(), watch);
        self.due.push(Reverse(Due { at: Instant::now(), serial: self.serial, address: None, watch: key }));
    }

    fn unwatch(&mut self, key: &WatchKey) {
        if let Some(watch) = self.watches.remove(key) {
            watch.endpoints.values().for_each(|target| target.endpoint.set_passes(key.1, true));
        }
    }

    fn perform(&mut self, due: Due) {
        let Some(watch) = self.watches.get_mut(&due.watch) else { return };
        let Some(address) = due.address else {
            if watch.serial == due.serial {
                self.look_at(due);
            }
            return;
        };
        let Some(probed) = watch.endpoints.get(&address).filter(|target| target.serial == due.serial) else {
            return;
        };
        let policy = watch.policy.clone();
        let target = SocketAddr::new(address.ip(), policy.port.unwrap_or(address.port()));
        if leads_here(&self.own.load(), &policy, target) {
            if probed.endpoint.passes(1 << due.watch.1) {
                let set = &due.watch.0;
                tracing::warn!(%set, %target, "a health check leads to a listener of the gateway itself, and fails unmade");
            }
            self.running.push(Box::pin(std::future::ready(Checked { due, passed: false })));
            return;
        }
        self.running.push(Box::pin(async move {
            let checked = timeout(policy.timeout, policy.check.check(&backend(target))).await;
            Checked { due, passed: matches!(checked, Ok(Ok(()))) }
        }));
    }

    /// Synchronises with the current endpoints of a set.
    fn look_at(&mut self, due: Due) {
        let Some(watch) = self.watches.get_mut(&due.watch) else { return };
        let Some(set) = watch.set.upgrade() else { return self.unwatch(&due.watch) };
        let interval = watch.policy.interval;
        for (address, serial) in watch.take_in(&set, &mut self.serial) {
            // At a random time of the first interval, so that the checks of a set spread out.
            let at = due.at + interval.mul_f64(fastrand::f64());
            self.due.push(Reverse(Due { at, serial, address: Some(address), watch: due.watch.clone() }));
        }
        self.due.push(Reverse(Due { at: Instant::now() + interval, ..due }));
    }

    async fn judge(&mut self, Checked { due, passed }: Checked) {
        let count = if passed { &self.counts.passed } else { &self.counts.failed };
        count.fetch_add(1, Ordering::Relaxed);
        let (set, slot) = &due.watch;
        let Some(watch) = self.watches.get_mut(&due.watch) else { return };
        let target = due.address.and_then(|address| watch.endpoints.get_mut(&address));
        let Some(target) = target.filter(|target| target.serial == due.serial) else { return };
        let policy = watch.policy.clone();
        let endpoint = &target.endpoint;
        if passed == endpoint.passes(1 << slot) {
            target.against = 0;
        } else {
            target.against += 1;
            if target.against >= policy.check.health_threshold(passed) {
                target.against = 0;
                endpoint.set_passes(*slot, passed);
                let address = endpoint.address();
                if passed {
                    endpoint.begin_slowly(Instant::now().into_std());
                    tracing::info!(%set, %address, "an endpoint passes its health check again");
                } else {
                    tracing::warn!(%set, %address, "an endpoint fails its health check: it gets no requests");
                }
                policy.check.health_status_change(&backend(address), passed).await;
            }
        }
        // With 10 % jitter, so that checks that coincide spread out.
        let next = policy.interval.mul_f64(0.9 + 0.2 * fastrand::f64());
        self.due.push(Reverse(Due { at: Instant::now() + next, ..due }));
    }
}

/// Returns whether a check would connect to a listener of the gateway. Such endpoints are left out
/// of sets, but the port of a check is a separate one: authors of EndpointSlices could use it to
/// probe the gateway's listeners.
fn leads_here(own: &OwnListeners, policy: &ProbePolicy, target: SocketAddr) -> bool {
    // If that is unknown, the check is not made.
    policy.port.is_some() && own.lookups().ask(target) != Owner::Other
}

/// Returns an endpoint in the form of Pingora's health checks.
pub(super) fn backend(address: SocketAddr) -> Backend {
    Backend { addr: PingoraAddr::Inet(address), weight: 1, ext: Extensions::new() }
}

impl Watch {
    /// Updates the endpoints from the set. Returns the new ones with their serials.
    fn take_in(&mut self, set: &EndpointSet, serial: &mut u64) -> Vec<(SocketAddr, u64)> {
        let generation = set.current();
        // An endpoint that returns soon is a new entry here but keeps its health.
        self.endpoints.retain(|address, target| {
            generation.member(*address).is_some_and(|now| Arc::ptr_eq(now, &target.endpoint))
        });
        let mut new = Vec::new();
        for endpoint in &generation.endpoints {
            self.endpoints.entry(endpoint.address()).or_insert_with(|| {
                *serial += 1;
                new.push((endpoint.address(), *serial));
                Probed { endpoint: endpoint.clone(), serial: *serial, against: 0 }
            });
        }
        new
    }
}
