//! What all workers share: the current configuration and the meters. Read on every request without a lock;
//! changed by [`apply`](crate::apply::apply) alone.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use http::HeaderValue;
use imbl::OrdMap;
use sluice_config::{
    Certificate, CertificateId, Generation, GroupId, Host, HostKey, ListenerGroup, Problem, Tuning,
};

use crate::listen::Listeners;
use crate::policy::hsts;
use crate::registry::{OwnEndpoint, OwnListener, Registry, Reporter};
use crate::resources::Resources;
use crate::route::{Route, Target};
use crate::router::RouteTable;
use crate::telemetry::Telemetry;

/// The data plane's shared state.
pub struct State {
    /// Compiled hosts.
    pub routes: ArcSwap<RouteTable<Route>>,
    /// Global settings.
    pub tuning: ArcSwap<Tuning>,
    /// Global settings with what is made of them, for the request path.
    pub(crate) globals: ArcSwap<Globals>,
    /// Pools and endpoints.
    pub registry: Registry,
    /// What rules name by key: users, header sets, certificate authorities.
    pub resources: Resources,
    /// Meters and logs.
    pub telemetry: Arc<Telemetry>,
    /// Whether traffic should be sent here.
    pub readiness: Readiness,
    /// Where it is told what no delta asked for.
    pub(crate) reporter: Reporter,
    /// The configuration in force, as it was sent; for introspection and metrics.
    pub configuration: ArcSwap<Configuration>,
    /// What is wrong now, of all kinds.
    problems: ArcSwap<Vec<Problem>>,
    /// The same by who says so. Not looked at by requests.
    told: Mutex<Told>,
}

/// Problems by who tells of them.
#[derive(Debug, Default)]
struct Told {
    input: Vec<Problem>,
    listeners: Vec<Problem>,
    /// Endpoints that are listeners of our own.
    own: Vec<Problem>,
    /// Where clients come in.
    traffic: Vec<OwnListener>,
    /// Health and introspection.
    admin: Vec<OwnListener>,
}

/// The tuning and what every request would otherwise make of it anew.
#[derive(Debug)]
pub(crate) struct Globals {
    pub(crate) tuning: Arc<Tuning>,
    pub(crate) hsts: Option<HeaderValue>,
    pub(crate) default_backend: Option<Arc<Target>>,
}

/// What was sent and is in force. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// Number of the last delta.
    pub generation: Generation,
    /// Hosts.
    pub hosts: OrdMap<HostKey, Arc<Host>>,
    /// Certificates.
    pub certificates: OrdMap<CertificateId, Arc<Certificate>>,
    /// Listener groups.
    pub groups: OrdMap<GroupId, Arc<ListenerGroup>>,
    pub(crate) hosts_hash: u64,
    pub(crate) tuning_hash: u64,
}

/// Whether traffic should be sent here.
#[derive(Debug, Default)]
pub struct Readiness {
    complete: AtomicBool,
    bound: AtomicBool,
    draining: AtomicBool,
}

impl Globals {
    pub(crate) fn new(tuning: Arc<Tuning>, default_backend: Option<Arc<Target>>) -> Self {
        Self { hsts: tuning.hsts.as_ref().map(hsts::value), tuning, default_backend }
    }
}

impl Configuration {
    /// A number that is equal where hosts and tuning are equal, in whatever order they came.
    pub fn hash(&self) -> u64 {
        self.hosts_hash ^ self.tuning_hash
    }
}

impl State {
    /// The state before the first delta. The reporter hears of ejected endpoints; it must not block.
    pub fn new(telemetry: Arc<Telemetry>, reporter: Reporter) -> Arc<Self> {
        telemetry.problems(&[]);
        Arc::new(Self {
            routes: ArcSwap::default(),
            tuning: ArcSwap::default(),
            globals: ArcSwap::from_pointee(Globals::new(Arc::default(), None)),
            registry: Registry::new(reporter.clone()),
            resources: Resources::default(),
            reporter,
            telemetry,
            readiness: Readiness::default(),
            configuration: ArcSwap::default(),
            problems: ArcSwap::default(),
            told: Mutex::default(),
        })
    }

    /// Replaces the list of what is wrong with the input.
    pub fn set_problems(&self, problems: Vec<Problem>) {
        self.tell(|told| {
            told.input = problems;
            true
        });
    }

    /// Takes over how the listeners are: whether they serve, what is wrong with them, and where they are, so that
    /// nobody makes that an endpoint.
    pub(crate) fn set_listening(&self, listeners: &Listeners) {
        // Asked under the lock: of two callers the later one has the newer answer.
        self.tell(|told| {
            let problems = listeners.problems();
            let news = told.listeners != problems;
            told.listeners = problems;
            self.readiness.set_bound(listeners.are_serving());
            self.set_own(told, |told| &mut told.traffic, listeners.addresses()) || news
        });
    }

    /// Says where health and introspection are, so that nobody makes that an endpoint.
    pub(crate) fn set_admin_listeners(&self, listeners: Vec<OwnListener>) {
        self.tell(|told| self.set_own(told, |told| &mut told.admin, listeners));
    }

    /// Takes in which endpoints are listeners of our own, after the registry has changed.
    pub(crate) fn registry_changed(&self) {
        self.tell(|told| self.find_own_endpoints(told));
    }

    /// Says whether an endpoint is ours now that was not, or the other way round.
    fn set_own(
        &self,
        told: &mut Told,
        part: impl FnOnce(&mut Told) -> &mut Vec<OwnListener>,
        listeners: Vec<OwnListener>,
    ) -> bool {
        if std::mem::replace(part(told), listeners.clone()) == listeners {
            return false;
        }
        let all = told.admin.iter().chain(&told.traffic).cloned().collect();
        self.registry.set_own_listeners(all);
        self.find_own_endpoints(told)
    }

    /// Says whether there is anything new.
    fn find_own_endpoints(&self, told: &mut Told) -> bool {
        let Some(own) = self.registry.own_endpoints() else { return false };
        let mut own: Vec<Problem> = own.iter().map(OwnEndpoint::problem).collect();
        own.sort();
        for problem in own.iter().filter(|problem| !told.own.contains(problem)) {
            tracing::warn!(%problem, "an endpoint is refused");
        }
        std::mem::replace(&mut told.own, own) != told.own
    }

    /// Publishes what is wrong if `change` says that there is news: with thousands of problems that takes a while,
    /// and most deltas have none.
    fn tell(&self, change: impl FnOnce(&mut Told) -> bool) {
        // A list is replaced as a whole: a panic elsewhere leaves nothing half done.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if change(&mut told) {
            self.publish_problems(&told);
        }
    }

    fn publish_problems(&self, told: &Told) {
        let mut all: Vec<Problem> =
            [&told.input, &told.listeners, &told.own].into_iter().flatten().cloned().collect();
        all.sort();
        self.telemetry.problems(&all);
        self.problems.store(Arc::new(all));
    }

    /// All problems there are, sorted by object.
    pub fn problems(&self) -> Arc<Vec<Problem>> {
        self.problems.load_full()
    }
}

impl Readiness {
    /// A complete configuration is in force.
    pub(crate) fn set_complete(&self) {
        self.complete.store(true, Relaxed);
    }

    /// Says whether all listeners are bound.
    pub fn set_bound(&self, bound: bool) {
        self.bound.store(bound, Relaxed);
    }

    /// The end has begun: no new traffic, please.
    pub fn set_draining(&self) {
        self.draining.store(true, Relaxed);
    }

    /// Whether a complete configuration has been applied.
    pub fn is_complete(&self) -> bool {
        self.complete.load(Relaxed)
    }

    /// Whether the end has begun.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// Whether requests can be served and should be sent.
    pub fn is_ready(&self) -> bool {
        self.is_complete() && self.bound.load(Relaxed) && !self.is_draining()
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("generation", &self.configuration.load().generation)
            .field("readiness", &self.readiness)
            .finish_non_exhaustive()
    }
}
