//! Active health checks: one task and one queue for all endpoint sets that opted in.
//!
//! The checks are Pingora's. A set is looked at once per interval for endpoints that have come; each endpoint
//! then has its own place in the queue, so that checks spread out over time rather than coming in bursts, and
//! leaves it when it is no member any more. An endpoint is healthy until its checks say otherwise.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use pingora_load_balancing::health_check::HealthCheck;
use sluice_config::EndpointSetKey;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::endpoint::Endpoint;
use super::endpoint_set::EndpointSet;
use super::ring::backend;

/// Checks that run at once; the others wait.
const CONCURRENT: usize = 64;

/// How a set is checked. Sets with equal policies should share one: an HTTP check costs milliseconds and
/// hundreds of kilobytes to make.
pub struct ProbePolicy {
    /// From one check of an endpoint to the next.
    pub interval: Duration,
    /// What is done, and how many results in a row it takes to believe them.
    pub check: Box<dyn HealthCheck + Send + Sync>,
}

/// Gives orders to the prober, which ends when the last handle is gone.
#[derive(Clone)]
pub struct ProberHandle(mpsc::UnboundedSender<Command>);

enum Command {
    Watch(Arc<EndpointSet>, Arc<ProbePolicy>),
    Unwatch(EndpointSetKey),
}

impl ProberHandle {
    /// Checks the set's endpoints from now on, in place of how it was checked before.
    pub fn watch(&self, set: Arc<EndpointSet>, policy: Arc<ProbePolicy>) {
        self.send(Command::Watch(set, policy));
    }

    /// Checks the set's endpoints no more; they count as well again.
    pub fn unwatch(&self, set: EndpointSetKey) {
        self.send(Command::Unwatch(set));
    }

    fn send(&self, command: Command) {
        // Sending fails when the prober has ended, and then nothing is to be done.
        let _ = self.0.send(command);
    }
}

/// The task.
pub struct Prober {
    commands: mpsc::UnboundedReceiver<Command>,
    watches: HashMap<EndpointSetKey, Watch>,
    due: BinaryHeap<Reverse<Due>>,
    running: FuturesUnordered<BoxFuture<'static, Checked>>,
    serial: u64,
}

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
    set: EndpointSetKey,
}

struct Checked {
    due: Due,
    passed: bool,
}

impl Prober {
    /// A prober and the handle on it.
    pub fn new() -> (ProberHandle, Self) {
        let (sender, commands) = mpsc::unbounded_channel();
        let prober = Self {
            commands,
            watches: HashMap::new(),
            due: BinaryHeap::new(),
            running: FuturesUnordered::new(),
            serial: 0,
        };
        (ProberHandle(sender), prober)
    }

    /// Runs until the last handle is gone.
    pub async fn run(mut self) {
        loop {
            let next = self.due.peek().map(|Reverse(due)| due.at);
            let has_room = self.running.len() < CONCURRENT;
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(Command::Watch(set, policy)) => self.watch(&set, policy),
                    Some(Command::Unwatch(key)) => self.unwatch(&key),
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

    fn watch(&mut self, set: &Arc<EndpointSet>, policy: Arc<ProbePolicy>) {
        self.unwatch(set.key());
        self.serial += 1;
        let watch =
            Watch { set: Arc::downgrade(set), policy, serial: self.serial, endpoints: HashMap::new() };
        self.watches.insert(set.key().clone(), watch);
        let now = Instant::now();
        self.due.push(Reverse(Due { at: now, serial: self.serial, address: None, set: set.key().clone() }));
    }

    fn unwatch(&mut self, key: &EndpointSetKey) {
        if let Some(watch) = self.watches.remove(key) {
            watch.endpoints.values().for_each(|target| target.endpoint.set_passes_probes(true));
        }
    }

    fn perform(&mut self, due: Due) {
        let Some(watch) = self.watches.get_mut(&due.set) else { return };
        let Some(address) = due.address else {
            if watch.serial == due.serial {
                self.look_at(due);
            }
            return;
        };
        if watch.endpoints.get(&address).is_some_and(|target| target.serial == due.serial) {
            let policy = watch.policy.clone();
            self.running.push(Box::pin(async move {
                let passed = policy.check.check(&backend(address)).await.is_ok();
                Checked { due, passed }
            }));
        }
    }

    /// Takes in which endpoints a set has now.
    fn look_at(&mut self, due: Due) {
        let Some(watch) = self.watches.get_mut(&due.set) else { return };
        let Some(set) = watch.set.upgrade() else { return self.unwatch(&due.set) };
        let interval = watch.policy.interval;
        for (address, serial) in watch.take_in(&set, &mut self.serial) {
            // At any time of the first interval, so that the checks of a set do not stay together.
            let at = due.at + interval.mul_f64(fastrand::f64());
            self.due.push(Reverse(Due { at, serial, address: Some(address), set: due.set.clone() }));
        }
        self.due.push(Reverse(Due { at: Instant::now() + interval, ..due }));
    }

    async fn judge(&mut self, Checked { due, passed }: Checked) {
        let Some(watch) = self.watches.get_mut(&due.set) else { return };
        let target = due.address.and_then(|address| watch.endpoints.get_mut(&address));
        let Some(target) = target.filter(|target| target.serial == due.serial) else { return };
        let policy = watch.policy.clone();
        if passed == target.endpoint.passes_probes() {
            target.against = 0;
        } else {
            target.against += 1;
            if target.against >= policy.check.health_threshold(passed) {
                target.against = 0;
                target.endpoint.set_passes_probes(passed);
                let checked = backend(target.endpoint.address());
                policy.check.health_status_change(&checked, passed).await;
            }
        }
        self.due.push(Reverse(Due { at: Instant::now() + policy.interval, ..due }));
    }
}

impl Watch {
    /// Brings the endpoints in line with the set and returns those that are new, with the serial each got.
    fn take_in(&mut self, set: &EndpointSet, serial: &mut u64) -> Vec<(SocketAddr, u64)> {
        let generation = set.current();
        self.endpoints.retain(|address, target| {
            let stays = generation.member(*address).is_some_and(|now| Arc::ptr_eq(now, &target.endpoint));
            if !stays {
                // Its checks end here; should it come back, it comes back well.
                target.endpoint.set_passes_probes(true);
            }
            stays
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
