//! The state that all workers share: the current configuration, the registry and the metrics.
//!
//! Requests read it without a lock; only [`apply`](apply::apply) changes the configuration.

pub mod apply;
pub(crate) mod change_log;
pub(crate) mod compiled_settings;
mod counted_reports;
pub(crate) mod distrusted_proxies;
pub mod problem_index;
pub mod readiness;
pub mod setting_values;
pub mod snapshot;
pub(crate) mod step_limits;

use std::fmt;
use std::future;
use std::sync::{Arc, LazyLock, OnceLock};

use arc_swap::ArcSwap;
use sluice_config::GlobalSettings;
use tokio::sync::watch;

use self::change_log::ChangeLog;
use self::compiled_settings::CompiledSettings;
use self::counted_reports::CountedReports;
use self::distrusted_proxies::DistrustedProxy;
pub(crate) use self::problem_index::Listening;
use self::problem_index::ProblemIndex;
use self::readiness::Readiness;
use self::setting_values::SettingValues;
use self::step_limits::StepLimitReport;
use crate::body::disk::Disk;
use crate::cache::{FolderFault, ResponseCache};
use crate::firewall::{Agent, Configurations, deliver};
use crate::io::budget::Budget;
use crate::location::{LOOK, Locations};
use crate::otel::{Exporter, LogRecords, Queue, Signal, Spans};
use crate::policy::basic_auth::Verified;
use crate::policy::digest_auth::Nonces;
use crate::policy::limits::Limiter;
use crate::policy::resources::Resources;
use crate::process::reporter::Reporter;
use crate::registry::{OwnListener, Registry};
use crate::replicas::{LimitSync, ReplicaReport, WantedReplicas};
use crate::route::Route;
use crate::router::RouteTable;
use crate::stream_table::StreamTable;
use crate::tap::Taps;
use crate::telemetry::configuration::Configuration;
use crate::telemetry::{MemoryUse, OtelCounts, Telemetry};
use crate::variable::HOSTNAME;

/// The data plane's shared state.
pub struct State {
    /// Hosts and global settings. Requests see it through a
    /// [`PublishedSnapshot`](crate::state::snapshot::PublishedSnapshot).
    pub(crate) published: ArcSwap<Published>,
    /// Signals each change of `published`.
    pub(crate) publications: watch::Sender<()>,
    /// Pools and endpoints.
    pub registry: Registry,
    /// Resources that rules refer to by key: users, header sets, certificate authorities.
    pub resources: Resources,
    /// Usage of clients with limits.
    pub(crate) limiter: Arc<Limiter>,
    /// Recent results of password checks.
    pub(crate) verified: Arc<Verified>,
    /// Nonces of digest authentication, created on first use.
    pub(crate) nonces: LazyLock<Nonces>,
    /// Meters and logs.
    pub telemetry: Arc<Telemetry>,
    /// Memory for bodies and heads in flight.
    pub(crate) budget: Arc<Budget>,
    /// Stored responses.
    pub(crate) cache: ResponseCache,
    /// Disk for request bodies.
    pub(crate) disk: Arc<Disk>,
    /// Whether traffic should be sent here.
    pub readiness: Readiness,
    /// Spans that wait for the collector of traces.
    pub(crate) spans: Arc<Queue<Spans>>,
    /// Lines of the access log that wait for the collector.
    pub(crate) log_records: Arc<Queue<LogRecords>>,
    /// Readers of live requests.
    pub(crate) taps: Arc<Taps>,
    /// The path of health checks (`--health-check-path`), if it is another than the default.
    health_path: OnceLock<String>,
    /// The agent of web application firewalls, if there is one.
    pub(crate) firewall_agent: OnceLock<Agent>,
    /// The directives of firewalls.
    pub(crate) firewall_configurations: Configurations,
    /// GeoIP2 databases.
    pub(crate) locations: Locations,
    /// Requests of proxies that are not trusted.
    pub(crate) distrusted: CountedReports<DistrustedProxy>,
    /// Requests whose expressions reached their step limit.
    pub(crate) step_limits: CountedReports<StepLimitReport>,
    /// Sink for reports that no delta requested.
    pub(crate) reporter: Reporter,
    /// The configuration in force, as it was sent; for introspection and metrics.
    pub configuration: ArcSwap<Configuration>,
    /// All problems that exist now.
    pub problems: ProblemIndex,
    /// The last changes of the configuration.
    pub(crate) changes: ChangeLog,
    /// The values of settings with their origins.
    pub setting_values: SettingValues,
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

/// Default of [`State::set_health_path`].
const HEALTH_PATH: &str = "/healthz";

impl State {
    /// The state before the first delta. The reporter must not block.
    pub fn new(telemetry: Arc<Telemetry>, reporter: Reporter) -> Arc<Self> {
        let settings = GlobalSettings::default();
        let disk = Arc::new(Disk::default());
        disk.set_limit(settings.body_disk);
        let budget = Budget::new(bytes(settings.body_memory));
        let cache = ResponseCache::new(&budget);
        cache.set_limit(bytes(settings.cache_size));
        cache.set_file_limit(settings.cache_file_size);
        Arc::new(Self {
            budget,
            cache,
            disk,
            published: ArcSwap::default(),
            publications: watch::Sender::default(),
            registry: Registry::new(reporter.clone()),
            resources: Resources::default(),
            limiter: Arc::default(),
            verified: Arc::new(Verified::new()),
            nonces: LazyLock::new(Nonces::new),
            taps: Arc::default(),
            health_path: OnceLock::new(),
            firewall_agent: OnceLock::new(),
            firewall_configurations: Configurations::default(),
            locations: Locations::default(),
            spans: Arc::new(Queue::new()),
            log_records: Arc::new(Queue::new()),
            distrusted: CountedReports::default(),
            step_limits: CountedReports::default(),
            reporter,
            problems: ProblemIndex::new(telemetry.clone()),
            telemetry,
            readiness: Readiness::default(),
            configuration: ArcSwap::default(),
            changes: ChangeLog::default(),
            setting_values: SettingValues::default(),
        })
    }

    /// Sets the path of health checks. Only the first call has an effect.
    pub fn set_health_path(&self, path: String) {
        self.health_path.get_or_init(|| path);
    }

    /// The path of health checks.
    pub(crate) fn health_path(&self) -> &str {
        self.health_path.get().map_or(HEALTH_PATH, String::as_str)
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
        self.cache.set_limit(bytes(settings.cache_size));
        self.cache.set_file_limit(settings.cache_file_size);
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
            cache: self.cache.usage(),
        }
    }

    /// The numbers of records for the collector.
    pub(crate) fn export_counts(&self) -> OtelCounts {
        OtelCounts { spans: self.spans.counts(), log_records: self.log_records.counts() }
    }

    /// Records the state of the client listeners.
    pub(crate) fn set_listening(&self, look: impl FnOnce() -> Listening) {
        self.problems.set_listening(&self.registry, &self.readiness, look);
    }

    /// Records the addresses of health and introspection.
    pub(crate) fn set_admin_listeners(&self, listeners: Vec<OwnListener>) {
        self.problems.set_admin_listeners(&self.registry, listeners);
    }

    /// Reads GeoIP2 databases again when their files change, and records their problems. Does not
    /// return.
    pub(crate) async fn follow_location_files(self: Arc<Self>) {
        let mut publications = self.publications.subscribe();
        loop {
            let is_wanted = self.settings().use_geoip2;
            let state = self.clone();
            if let Ok(problems) = tokio::task::spawn_blocking(move || state.locations.look()).await {
                self.problems.set_location_problems(problems);
            }
            // Files change without a publication.
            let pause = async {
                match is_wanted {
                    true => tokio::time::sleep(LOOK).await,
                    false => future::pending().await,
                }
            };
            tokio::select! {
                () = pause => {}
                () = self.locations.missed() => {}
                changed = publications.wait_for(|()| self.settings().use_geoip2 != is_wanted) => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Sends what waits in a queue to the collector, and records its faults as problems, until the
    /// queue is closed.
    pub(crate) async fn export<S: Signal>(self: Arc<Self>, queue: Arc<Queue<S>>) {
        let updates = self.publications.subscribe();
        let read = || self.settings().trace.clone();
        let report = |fault| self.problems.set_collector_fault(S::NAME, fault);
        if let Some(exporter) = Exporter::new(queue, &HOSTNAME, updates, read, report) {
            exporter.run().await;
        }
    }

    /// Sends directives of firewalls to the agent, and records what prevents inspections as
    /// problems. Does not return if there is an agent.
    pub(crate) async fn deliver_directives(self: Arc<Self>) {
        let Some(agent) = self.firewall_agent.get() else { return };
        let address = agent.address();
        let report = |faults| self.problems.set_firewall_faults(address, faults);
        deliver(agent, &self.firewall_configurations, report).await;
    }

    /// Exchanges the use of limits with other replicas, and records what prevents that as problems.
    /// Returns at the end of the program.
    pub(crate) async fn share_limits(self: Arc<Self>) {
        let report = |report: &ReplicaReport| {
            self.telemetry.set_replicas(report.replicas, report.heard);
            self.problems.set_replica_faults(report);
        };
        let read = || {
            let replicas = self.settings().replicas.clone()?;
            let slot = replicas.identity.as_ref().and_then(|key| self.resources.endpoint_identity(key).ok());
            let identity = slot.and_then(|slot| slot.load_full());
            Some(WantedReplicas { replicas, identity })
        };
        LimitSync::new(self.limiter.clone(), self.telemetry.limit_use(), report)
            .run(self.publications.subscribe(), read)
            .await;
    }

    /// Records whether the folder of stored responses is usable. Does not return.
    pub(crate) async fn follow_cache_folder(
        self: Arc<Self>,
        mut faults: watch::Receiver<Option<FolderFault>>,
    ) {
        while faults.changed().await.is_ok() {
            let fault = faults.borrow_and_update().clone();
            self.problems.set_cache_folder_fault(fault.as_ref());
        }
    }

    /// Records proxies that are not trusted as problems. Does not return.
    pub(crate) async fn follow_distrusted_proxies(&self) {
        let mut reports = self.distrusted.subscribe();
        while reports.changed().await.is_ok() {
            let proxy = *reports.borrow_and_update();
            self.problems.set_distrusted_proxy(proxy);
        }
    }

    /// Records expressions that reach their step limits as problems. Does not return.
    pub(crate) async fn follow_step_limits(&self) {
        let mut reports = self.step_limits.subscribe();
        while reports.changed().await.is_ok() {
            let report = reports.borrow_and_update().clone();
            self.problems.set_step_limit(report);
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
