//! What all workers share: the current configuration and the meters. Read on every request without a lock;
//! changed by [`apply`](crate::apply::apply) alone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use http::HeaderValue;
use imbl::OrdSet;
use sluice_config::{Code, ObjectRef, Piece, Problem, ResourceKey, Severity, Tuning, Variable};
use tokio::sync::watch;

use crate::body::compression::CompressionRules;
use crate::body::disk::Disk;
use crate::configuration::Configuration;
use crate::io::budget::Budget;
use crate::message::edit::EditableName;
use crate::policy::access_log::LogRules;
use crate::policy::basic_auth::Verified;
use crate::policy::blocks::Blocks;
use crate::policy::digest_auth::Nonces;
use crate::policy::forwarded::ForwardedRules;
use crate::policy::header_set::HeaderSet;
use crate::policy::limits::Limiter;
use crate::policy::replacements::Replacements;
use crate::policy::resources::{Resources, Slot};
use crate::policy::template::Template;
use crate::policy::{ExternalAuth, Sources, hsts};
use crate::registry::{OwnEndpoint, OwnListener, Registry};
use crate::reporter::Reporter;
use crate::route::{Route, Target};
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
    /// Where it is told what no delta asked for.
    pub(crate) reporter: Reporter,
    /// The configuration in force, as it was sent; for introspection and metrics.
    pub configuration: ArcSwap<Configuration>,
    /// What is wrong now, of all kinds.
    problems: ArcSwap<Problems>,
    /// The same by who says so. Not looked at by requests.
    told: Mutex<Told>,
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
    /// Where clients come in.
    pub(crate) addresses: Vec<OwnListener>,
}

/// What the data plane finds by itself, and what it needs for that.
#[derive(Debug, Default)]
struct Told {
    /// Sockets that cannot be bound.
    listeners: Vec<Arc<Problem>>,
    /// Endpoints that are listeners of our own.
    own: Vec<Arc<Problem>>,
    /// Where clients come in.
    traffic: Vec<OwnListener>,
    /// Health and introspection.
    admin: Vec<OwnListener>,
    /// Logs that do not go where they should, by name.
    logs: BTreeMap<&'static str, Vec<Arc<Problem>>>,
}

/// The part of the configuration that requests are judged by. It changes as a whole.
#[derive(Clone, Default)]
pub struct Published {
    /// Compiled hosts.
    pub routes: RouteTable<Route>,
    /// Global settings with what is made of them.
    pub(crate) globals: Arc<Globals>,
}

/// The tuning and what every request would otherwise make of it anew.
#[derive(Debug)]
pub(crate) struct Globals {
    pub(crate) tuning: Arc<Tuning>,
    pub(crate) hsts: Option<HeaderValue>,
    pub(crate) compression: Option<Arc<CompressionRules>>,
    pub(crate) default_backend: Option<Target>,
    pub(crate) auth: GlobalAuth,
    pub(crate) blocks: Blocking,
    pub(crate) sources: Option<Sources>,
    pub(crate) forwarded: ForwardedRules,
    pub(crate) limit_key: LimitKey,
    pub(crate) log: LogRules,
    /// Fields of heads; most installations want none.
    pub(crate) headers: Option<Box<GlobalHeaders>>,
}

/// Fields of the heads of all rules.
#[derive(Debug, Default)]
pub(crate) struct GlobalHeaders {
    /// Whether endpoints are told what the client asked for (`proxy-add-original-uri-header`).
    pub(crate) adds_original_uri: bool,
    /// Of requests to endpoints (`proxy-set-headers`).
    pub(crate) request: Option<Arc<Slot<HeaderSet>>>,
    /// Of responses (`add-headers`).
    pub(crate) response: Option<Arc<Slot<HeaderSet>>>,
    /// What is taken out of responses of endpoints (`hide-headers`).
    pub(crate) hidden: Box<[EditableName]>,
    /// What is replaced in cookies and redirects of endpoints.
    pub(crate) replacements: Option<Replacements>,
}

/// What makes two requests those of one client for limits.
#[derive(Debug)]
pub(crate) enum LimitKey {
    /// That they come from one address.
    Client,
    /// That this becomes the same for both (`limit-conn-zone-variable`).
    Filled(Template),
}

/// Who is kept out everywhere.
#[derive(Debug)]
pub(crate) enum Blocking {
    /// Nobody.
    None,
    /// Whoever cannot be told from those that are to be: everybody.
    Closed,
    /// These.
    These(Box<Blocks>),
}

/// Who says for all rules which requests get in.
#[derive(Debug, Default)]
pub(crate) enum GlobalAuth {
    /// Nobody.
    #[default]
    None,
    /// Somebody who cannot be asked.
    Closed,
    /// This service.
    Asks(Arc<ExternalAuth>),
}

/// Whether traffic should be sent here.
#[derive(Debug, Default)]
pub struct Readiness {
    complete: AtomicBool,
    bound: AtomicBool,
    draining: AtomicBool,
}

impl GlobalAuth {
    /// Whether nobody says.
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

impl Globals {
    pub(crate) fn new(
        tuning: Arc<Tuning>,
        default_backend: Option<Target>,
        auth: GlobalAuth,
        resources: &Resources,
    ) -> Self {
        let compression = CompressionRules::compile(&tuning).map(Arc::new);
        let blocks = match Blocks::compile(&tuning.blocks) {
            Ok(None) => Blocking::None,
            Ok(Some(blocks)) => Blocking::These(Box::new(blocks)),
            Err(error) => {
                tracing::error!(%error, "who is to be blocked cannot be told: all requests answer 503");
                Blocking::Closed
            }
        };
        Self {
            hsts: tuning.hsts.as_ref().map(hsts::value),
            compression,
            sources: Sources::compile(&tuning.sources),
            headers: GlobalHeaders::compile(&tuning, resources).map(Box::new),
            forwarded: ForwardedRules::compile(&tuning.forwarded),
            limit_key: LimitKey::compile(&tuning.limit_key),
            log: LogRules::compile(&tuning.access_log),
            blocks,
            tuning,
            default_backend,
            auth,
        }
    }

    /// Whether no stage has anything to ask of a request that its rule does not ask.
    pub(crate) fn ask_nothing(&self) -> bool {
        // By name, so that whoever adds one says whether a stage asks for it.
        let Self {
            auth,
            blocks,
            sources,
            tuning: _,
            hsts: _,
            compression: _,
            default_backend: _,
            forwarded: _,
            limit_key: _,
            log: _,
            headers: _,
        } = self;
        auth.is_none() && sources.is_none() && matches!(blocks, Blocking::None)
    }
}

impl LimitKey {
    fn compile(template: &sluice_config::Template) -> Self {
        if matches!(&*template.pieces, [Piece::Variable(Variable::ClientAddress)]) {
            return Self::Client;
        }
        Template::compile(template).map_or_else(
            |error| {
                // Translation passes on names of fields only.
                tracing::error!(%error, "limit-conn-zone-variable cannot be used: limits are for each address");
                Self::Client
            },
            Self::Filled,
        )
    }
}

impl GlobalHeaders {
    /// `None` where nobody wants any. A name that cannot be hidden and a key of another kind, which the control plane
    /// sends of neither, are left out.
    fn compile(tuning: &Tuning, resources: &Resources) -> Option<Self> {
        let slot = |key: &Option<ResourceKey>| key.as_ref().and_then(|key| resources.headers(key).ok());
        let hidden = tuning.hidden_headers.iter().filter_map(|name| EditableName::new(name).ok()).collect();
        let replacements = match tuning.replacements == sluice_config::Replacements::OFF {
            true => None,
            false => Replacements::compile(&tuning.replacements).unwrap_or_else(|error| {
                tracing::error!(%error, "cookies and redirects of endpoints stay as they are");
                None
            }),
        };
        let headers = Self {
            adds_original_uri: tuning.adds_original_uri,
            request: slot(&tuning.request_headers),
            response: slot(&tuning.response_headers),
            hidden,
            replacements,
        };
        let Self { adds_original_uri, request, response, hidden, replacements } = &headers;
        let is_used = *adds_original_uri
            || request.is_some()
            || response.is_some()
            || !hidden.is_empty()
            || replacements.is_some();
        is_used.then_some(headers)
    }
}

impl Default for Globals {
    fn default() -> Self {
        Self::new(Arc::default(), None, GlobalAuth::None, &Resources::default())
    }
}

impl State {
    /// The state before the first delta. The reporter hears of ejected endpoints; it must not block.
    pub fn new(telemetry: Arc<Telemetry>, reporter: Reporter) -> Arc<Self> {
        let tuning = Tuning::default();
        let disk = Arc::new(Disk::default());
        disk.set_limit(tuning.body_disk);
        Arc::new(Self {
            budget: Budget::new(bytes(tuning.body_memory)),
            disk,
            published: ArcSwap::default(),
            publications: watch::Sender::default(),
            registry: Registry::new(reporter.clone()),
            resources: Resources::default(),
            limiter: Limiter::default(),
            verified: Arc::new(Verified::new()),
            nonces: LazyLock::new(Nonces::new),
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
    pub fn tuning(&self) -> Arc<Tuning> {
        self.published.load().globals.tuning.clone()
    }

    /// Takes in how much memory and disk bodies may have.
    pub(crate) fn set_room(&self, tuning: &Tuning) {
        self.budget.set_limit(bytes(tuning.body_memory));
        self.disk.set_limit(tuning.body_disk);
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
        told: &mut Told,
        part: impl FnOnce(&mut Told) -> &mut Vec<OwnListener>,
        listeners: Vec<OwnListener>,
    ) {
        if std::mem::replace(part(told), listeners.clone()) == listeners {
            return;
        }
        let all = told.admin.iter().chain(&told.traffic).cloned().collect();
        self.registry.set_own_listeners(all);
        self.find_own_endpoints(told);
    }

    fn find_own_endpoints(&self, told: &mut Told) {
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

    fn told(&self) -> MutexGuard<'_, Told> {
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
