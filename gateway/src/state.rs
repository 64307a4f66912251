//! What all workers share: the current configuration and the meters. Read on every request without a lock;
//! changed by [`apply`](crate::apply::apply) alone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use imbl::OrdSet;
use sluice_config::{Code, GlobalSettings, ObjectRef, Problem, Severity};
use tokio::sync::watch;

use crate::body::disk::Disk;
use crate::compiled_settings::CompiledSettings;
use crate::configuration::Configuration;
use crate::distrusted_proxies::{DistrustedProxies, DistrustedProxy};
use crate::io::budget::Budget;
use crate::policy::basic_auth::Verified;
use crate::policy::digest_auth::Nonces;
use crate::policy::limits::Limiter;
use crate::policy::resources::Resources;
use crate::readiness::Readiness;
use crate::registry::{OwnEndpoint, OwnListener, Registry};
use crate::reporter::Reporter;
use crate::route::Route;
use crate::router::RouteTable;
use crate::telemetry::{LogFault, MemoryUse, Telemetry};

/// The data plane's shared state.
pub struct State {
    /// Hosts and global settings. Requests see it through a [`Snapshot`](crate::snapshot::Snapshot).
    pub(crate) published: ArcSwap<Published>,
    /// That it has changed.
    pub(crate) publications: watch::Sender<()>,
    /// Pools and endpoints.
    pub registry: Registry,
    /// What rules name by key: users, header sets, certificate authorities.
    pub resources: Resources,
    /// What limited clients have used.
    pub(crate) limiter: Limiter,
    /// What was found of passwords lately.
    pub(crate) verified: Arc<Verified>,
    /// Nonces of digest authentication, once there has been a use for them.
    pub(crate) nonces: LazyLock<Nonces>,
    /// Meters and logs.
    pub telemetry: Arc<Telemetry>,
    /// Memory for bodies and heads in flight.
    pub(crate) budget: Arc<Budget>,
    /// Disk for request bodies.
    pub(crate) disk: Arc<Disk>,
    /// Whether traffic should be sent here.
    pub readiness: Readiness,
    /// Requests of proxies that are not trusted.
    pub(crate) distrusted: DistrustedProxies,
    /// Where it is told what no delta asked for.
    pub(crate) reporter: Reporter,
    /// The configuration in force, as it was sent; for introspection and metrics.
    pub configuration: ArcSwap<Configuration>,
    /// What is wrong now, of all kinds.
    problems: ArcSwap<Problems>,
    /// The same by who says so. Not looked at by requests.
    told: Mutex<Reported>,
}

/// Problems, sorted by object, each once. A change costs what it changes, however many others there are.
pub type Problems = OrdSet<Arc<Problem>>;

/// How the listeners are.
#[derive(Debug)]
pub(crate) struct Listening {
    /// Whether requests can come.
    pub(crate) serves: bool,
    /// What is wrong with the sockets.
    pub(crate) problems: Vec<Problem>,
    /// The addresses of the client listeners.
    pub(crate) addresses: Vec<OwnListener>,
}

/// Problems that the data plane detects itself, with the state needed to detect them.
#[derive(Debug, Default)]
struct Reported {
    /// Listeners that cannot be bound.
    listeners: Vec<Arc<Problem>>,
    /// Endpoints that are the gateway's own listeners.
    own: Vec<Arc<Problem>>,
    /// The addresses of the client listeners.
    traffic: Vec<OwnListener>,
    /// Health and introspection.
    admin: Vec<OwnListener>,
    /// Logs that do not go where they should, by name.
    logs: BTreeMap<&'static str, Vec<Arc<Problem>>>,
    /// A proxy that is not trusted.
    proxies: Vec<Arc<Problem>>,
}

/// The part of the configuration that requests are judged by. It changes as a whole.
#[derive(Clone, Default)]
pub struct Published {
    /// Compiled hosts.
    pub routes: RouteTable<Route>,
    /// Global settings with what is made of them.
    pub(crate) compiled_settings: Arc<CompiledSettings>,
}

impl State {
    /// The state before the first delta. The reporter hears of ejected endpoints; it must not block.
    pub fn new(telemetry: Arc<Telemetry>, reporter: Reporter) -> Arc<Self> {
        let settings = GlobalSettings::default();
        let disk = Arc::new(Disk::default());
        disk.set_limit(settings.body_disk);
        Arc::new(Self {
            budget: Budget::new(bytes(settings.body_memory)),
            disk,
            published: ArcSwap::default(),
            publications: watch::Sender::default(),
            registry: Registry::new(reporter.clone()),
            resources: Resources::default(),
            limiter: Limiter::default(),
            verified: Arc::new(Verified::new()),
            nonces: LazyLock::new(Nonces::new),
            distrusted: DistrustedProxies::default(),
            reporter,
            telemetry,
            readiness: Readiness::default(),
            configuration: ArcSwap::default(),
            problems: ArcSwap::default(),
            told: Mutex::default(),
        })
    }

    /// Puts this in force for requests to come.
    pub(crate) fn put_in_force(&self, published: Published) {
        self.published.store(Arc::new(published));
        self.publications.send_replace(());
    }

    /// Global settings as they are now, for whoever serves no request.
    pub fn settings(&self) -> Arc<GlobalSettings> {
        self.published.load().compiled_settings.settings.clone()
    }

    /// Takes in how much memory and disk bodies may have.
    pub(crate) fn set_room(&self, settings: &GlobalSettings) {
        self.budget.set_limit(bytes(settings.body_memory));
        self.disk.set_limit(settings.body_disk);
    }

    /// How much of the memory for bodies and heads is in use.
    pub(crate) fn memory_use(&self) -> MemoryUse {
        let budget = &self.budget;
        MemoryUse {
            taken: budget.taken(),
            limit: budget.limit(),
            waits: budget.waits(),
            refusals: budget.refusals(),
        }
    }

    /// Takes over how the problems differ from before.
    pub fn change_problems(&self, appeared: &[Arc<Problem>], resolved: &[Arc<Problem>]) {
        let _told = self.told();
        self.publish(appeared, resolved);
    }

    /// Takes over how the listeners are, and sees to it that nobody makes one an endpoint.
    pub(crate) fn set_listening(&self, look: impl FnOnce() -> Listening) {
        // Asked under the lock: of two callers the later one has the newer answer.
        let mut told = self.told();
        let Listening { serves, problems, addresses } = look();
        self.replace(&mut told.listeners, problems);
        self.readiness.set_bound(serves);
        self.set_own(&mut told, |told| &mut told.traffic, addresses);
    }

    /// Takes over whether a log goes where it should. Its name completes "the ... log".
    pub fn set_log_fault(&self, name: &'static str, fault: Option<&LogFault>) {
        let problem = fault.map(|LogFault { place, reason }| Problem {
            object: ObjectRef::new("Log", "", name),
            field: "path".into(),
            uid: None,
            severity: Severity::Error,
            code: Code::LogNotOpened,
            message: format!("{place} cannot be opened: {reason}; lines go to the standard stream"),
            remedy:
                "make the place writable for the gateway, or name another one; it is opened as soon as it can be, without a restart"
                    .into(),
        });
        let mut told = self.told();
        let known = told.logs.entry(name).or_default();
        if known.iter().map(|problem| &**problem).eq(&problem) {
            return;
        }
        if let Some(problem) = &problem {
            tracing::error!(%problem, "a log cannot be opened");
        }
        self.replace(told.logs.entry(name).or_default(), problem.into_iter().collect());
    }

    /// Reports a proxy that is not trusted in place of the one before.
    fn set_distrusted_proxy(&self, proxy: Option<DistrustedProxy>) {
        let problems = proxy.map(DistrustedProxy::problem).into_iter().collect();
        for problem in self.replace(&mut self.told().proxies, problems) {
            tracing::error!(%problem, "a proxy is not trusted");
        }
    }

    /// Reports proxies that are not trusted, for ever.
    pub(crate) async fn follow_distrusted_proxies(&self) {
        let mut reports = self.distrusted.subscribe();
        while reports.changed().await.is_ok() {
            let proxy = *reports.borrow_and_update();
            self.set_distrusted_proxy(proxy);
        }
    }

    /// Says where health and introspection are, so that nobody makes that an endpoint.
    pub(crate) fn set_admin_listeners(&self, listeners: Vec<OwnListener>) {
        self.set_own(&mut self.told(), |told| &mut told.admin, listeners);
    }

    /// Takes in which endpoints are listeners of our own, after the registry has changed.
    pub(crate) fn registry_changed(&self) {
        self.find_own_endpoints(&mut self.told());
    }

    fn set_own(
        &self,
        told: &mut Reported,
        part: impl FnOnce(&mut Reported) -> &mut Vec<OwnListener>,
        listeners: Vec<OwnListener>,
    ) {
        if std::mem::replace(part(told), listeners.clone()) == listeners {
            return;
        }
        let all = told.admin.iter().chain(&told.traffic).cloned().collect();
        self.registry.set_own_listeners(all);
        self.find_own_endpoints(told);
    }

    fn find_own_endpoints(&self, told: &mut Reported) {
        let Some(own) = self.registry.own_endpoints() else { return };
        let appeared = self.replace(&mut told.own, own.iter().map(OwnEndpoint::problem).collect());
        for problem in appeared {
            tracing::warn!(%problem, "an endpoint is refused");
        }
    }

    /// Puts these problems in place of those. Gives the new ones.
    fn replace(&self, old: &mut Vec<Arc<Problem>>, new: Vec<Problem>) -> Vec<Arc<Problem>> {
        let new: Vec<Arc<Problem>> = new.into_iter().map(Arc::new).collect();
        let without = |all: &[Arc<Problem>], others: &[Arc<Problem>]| -> Vec<Arc<Problem>> {
            all.iter().filter(|problem| !others.contains(problem)).cloned().collect()
        };
        let (appeared, resolved) = (without(&new, old), without(old, &new));
        self.publish(&appeared, &resolved);
        *old = new;
        appeared
    }

    /// To be called with the lock held.
    fn publish(&self, appeared: &[Arc<Problem>], resolved: &[Arc<Problem>]) {
        if appeared.is_empty() && resolved.is_empty() {
            return;
        }
        let mut all = Problems::clone(&self.problems.load());
        for problem in resolved {
            if all.remove(problem).is_some() {
                self.telemetry.problem_resolved(problem);
            }
        }
        for problem in appeared {
            if all.insert(problem.clone()).is_none() {
                self.telemetry.problem_appeared(problem);
            }
        }
        self.problems.store(Arc::new(all));
    }

    fn told(&self) -> MutexGuard<'_, Reported> {
        // A list is replaced as a whole: a panic elsewhere leaves nothing half done.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All problems there are, sorted by object.
    pub fn problems(&self) -> Arc<Problems> {
        self.problems.load_full()
    }
}

/// As many as this machine can tell.
fn bytes(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("generation", &self.configuration.load().generation)
            .field("readiness", &self.readiness)
            .finish_non_exhaustive()
    }
}
