//! Active health checks: one task and one queue for all endpoint sets that opted in.
//!
//! The checks are Pingora's, or have its form. A set is looked at once per interval for endpoints that have come; each endpoint
//! then has its own place in the queue, so that checks spread out over time rather than coming in bursts, and
//! leaves it when it is no member any more. An endpoint is healthy until its checks say otherwise.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use pingora_load_balancing::health_check::HealthCheck;
use sluice_config::EndpointSetKey;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::endpoint::Endpoint;
use super::endpoint_set::EndpointSet;
use super::own::{Own, Owner};
use super::ring::backend;

/// Checks that run at once; the others wait.
const CONCURRENT: usize = 64;

/// How a set is checked. Sets with equal policies should share one: an HTTP check costs milliseconds and
/// hundreds of kilobytes to make.
pub(super) struct ProbePolicy {
    /// From one check of an endpoint to the next.
    pub(super) interval: Duration,
    /// For a whole check.
    pub(super) timeout: Duration,
    /// At which port; `None` is that of the endpoint.
    pub(super) port: Option<u16>,
    /// What is done, and how many results in a row it takes to believe them.
    pub(super) check: Box<dyn HealthCheck + Send + Sync>,
}

/// Gives orders to the prober, which ends when the last handle is gone.
#[derive(Clone)]
pub(super) struct ProberHandle {
    commands: mpsc::UnboundedSender<Command>,
    counts: Arc<Counts>,
    own: Arc<ArcSwap<Own>>,
}

/// Checks since the start.
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
    /// Checks the set's endpoints from now on, in place of how the slot was checked before.
    pub(super) fn watch(&self, set: Arc<EndpointSet>, slot: u8, policy: Arc<ProbePolicy>) {
        self.send(Command::Watch(set, slot, policy));
    }

    /// Makes the check of this slot no more; endpoints count as well again.
    pub(super) fn unwatch(&self, set: EndpointSetKey, slot: u8) {
        self.send(Command::Unwatch(set, slot));
    }

    /// Checks that have been passed, and that have failed.
    pub(super) fn counts(&self) -> (u64, u64) {
        let Counts { passed, failed } = &*self.counts;
        (passed.load(Ordering::Relaxed), failed.load(Ordering::Relaxed))
    }

    /// Says where the program itself listens: no check goes there.
    pub(super) fn set_own(&self, own: Own) {
        self.own.store(Arc::new(own));
    }

    fn send(&self, command: Command) {
        // Sending fails when the prober has ended, and then nothing is to be done.
        let _ = self.commands.send(command);
    }
}

/// The task.
pub struct Prober {
    commands: mpsc::UnboundedReceiver<Command>,
    counts: Arc<Counts>,
    own: Arc<ArcSwap<Own>>,
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
    /// Results in a row that speak against what is believed.
    against: usize,
}

/// What is to be done at a time: look at a set (`address` is none), or check one of its endpoints.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone)]
struct Due {
    at: Instant,
    /// Of the watch or target it was made for: what is left over from an earlier one of the same name is
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
    /// A prober and the handle on it.
    pub(super) fn new() -> (ProberHandle, Self) {
        let (sender, commands) = mpsc::unbounded_channel();
        let (counts, own) = (Arc::<Counts>::default(), Arc::<ArcSwap<Own>>::default());
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

    /// Runs until the last handle is gone.
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

    /// Takes in which endpoints a set has now.
    fn look_at(&mut self, due: Due) {
        let Some(watch) = self.watches.get_mut(&due.watch) else { return };
        let Some(set) = watch.set.upgrade() else { return self.unwatch(&due.watch) };
        let interval = watch.policy.interval;
        for (address, serial) in watch.take_in(&set, &mut self.serial) {
            // At any time of the first interval, so that the checks of a set do not stay together.
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
        // A tenth more or less, so that checks which fell together do not stay so.
        let next = policy.interval.mul_f64(0.9 + 0.2 * fastrand::f64());
        self.due.push(Reverse(Due { at: Instant::now() + next, ..due }));
    }
}

/// Whether a check would go to a listener of our own. Endpoints that are ours are left out of their sets, but a port for
/// checks is another one: whoever may write EndpointSlices would learn of our ports which of them answer, and how.
fn leads_here(own: &Own, policy: &ProbePolicy, target: SocketAddr) -> bool {
    // Where it cannot be told, neither.
    policy.port.is_some() && own.lookups().ask(target) != Owner::Other
}

impl Watch {
    /// Brings the endpoints in line with the set and returns those that are new, with the serial each got.
    fn take_in(&mut self, set: &EndpointSet, serial: &mut u64) -> Vec<(SocketAddr, u64)> {
        let generation = set.current();
        // Should one that goes come back soon, it comes back as it was.
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
