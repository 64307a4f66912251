//! The state that all workers share: the current configuration, the registry and the metrics.
//!
//! Requests read it without a lock; only [`apply`](apply::apply) changes the configuration.

pub mod apply;
pub(crate) mod compiled_settings;
mod distrusted_proxies;
pub mod problem_index;
pub mod readiness;
pub mod snapshot;

use std::fmt;
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;
use sluice_config::GlobalSettings;
use tokio::sync::watch;

use self::compiled_settings::CompiledSettings;
use self::distrusted_proxies::DistrustedProxies;
pub(crate) use self::problem_index::Listening;
use self::problem_index::ProblemIndex;
use self::readiness::Readiness;
use crate::body::disk::Disk;
use crate::io::budget::Budget;
use crate::policy::basic_auth::Verified;
use crate::policy::digest_auth::Nonces;
use crate::policy::limits::Limiter;
use crate::policy::resources::Resources;
use crate::process::reporter::Reporter;
use crate::registry::{OwnListener, Registry};
use crate::route::Route;
use crate::router::RouteTable;
use crate::stream_table::StreamTable;
use crate::telemetry::configuration::Configuration;
use crate::telemetry::{MemoryUse, Telemetry};

/// The data plane's shared state.
pub struct State {
    /// Hosts and global settings. Requests see it through a
    /// [`Snapshot`](crate::state::snapshot::Snapshot).
    pub(crate) published: ArcSwap<Published>,
    /// Signals each change of `published`.
    pub(crate) publications: watch::Sender<()>,
    /// Pools and endpoints.
    pub registry: Registry,
    /// Resources that rules refer to by key: users, header sets, certificate authorities.
    pub resources: Resources,
    /// Usage of clients with limits.
    pub(crate) limiter: Limiter,
    /// Recent results of password checks.
    pub(crate) verified: Arc<Verified>,
    /// Nonces of digest authentication, created on first use.
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
    /// Sink for reports that no delta requested.
    pub(crate) reporter: Reporter,
    /// The configuration in force, as it was sent; for introspection and metrics.
    pub configuration: ArcSwap<Configuration>,
    /// All problems that exist now.
    pub problems: ProblemIndex,
}

/// The part of the configuration that requests use. It is replaced as a whole.
#[derive(Clone, Default)]
pub struct Published {
    /// Compiled hosts.
    pub routes: RouteTable<Route>,
    /// Targets of streams.
    pub(crate) streams: StreamTable,
    /// Global settings in their compiled form.
    pub(crate) compiled_settings: Arc<CompiledSettings>,
}

impl State {
    /// The state before the first delta. The reporter must not block.
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
            problems: ProblemIndex::new(telemetry.clone()),
            telemetry,
            readiness: Readiness::default(),
            configuration: ArcSwap::default(),
        })
    }

    /// Publishes a configuration for new requests.
    pub(crate) fn put_in_force(&self, published: Published) {
        self.published.store(Arc::new(published));
        self.publications.send_replace(());
    }

    /// The current global settings, for code outside of requests.
    pub fn settings(&self) -> Arc<GlobalSettings> {
        self.published.load().compiled_settings.settings.clone()
    }

    /// Sets the limits of memory and disk for bodies.
    pub(crate) fn set_room(&self, settings: &GlobalSettings) {
        self.budget.set_limit(bytes(settings.body_memory));
        self.disk.set_limit(settings.body_disk);
    }

    /// The use of the memory budget.
    pub(crate) fn memory_use(&self) -> MemoryUse {
        let budget = &self.budget;
        MemoryUse {
            taken: budget.taken(),
            limit: budget.limit(),
            waits: budget.waits(),
            refusals: budget.refusals(),
        }
    }

    /// Records the state of the client listeners.
    pub(crate) fn set_listening(&self, look: impl FnOnce() -> Listening) {
        self.problems.set_listening(&self.registry, &self.readiness, look);
    }

    /// Records the addresses of health and introspection.
    pub(crate) fn set_admin_listeners(&self, listeners: Vec<OwnListener>) {
        self.problems.set_admin_listeners(&self.registry, listeners);
    }

    /// Records proxies that are not trusted as problems. Does not return.
    pub(crate) async fn follow_distrusted_proxies(&self) {
        let mut reports = self.distrusted.subscribe();
        while reports.changed().await.is_ok() {
            let proxy = *reports.borrow_and_update();
            self.problems.set_distrusted_proxy(proxy);
        }
    }
}

/// Saturates on machines with smaller addresses.
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
