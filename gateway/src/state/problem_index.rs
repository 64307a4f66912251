//! All problems that exist now: those of translation, and those that the data plane detects itself.
//! Requests do not use it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use imbl::OrdSet;
use sluice_config::{Code, ObjectRef, Problem, Severity};

use super::distrusted_proxies::DistrustedProxy;
use super::readiness::Readiness;
use super::step_limits::StepLimitReport;
use crate::cache::FolderFault;
use crate::firewall::DeliveryFaults;
use crate::otel::CollectorFault;
use crate::registry::{OwnEndpoint, OwnListener, Registry};
use crate::replicas::ReplicaReport;
use crate::telemetry::{LogFault, Telemetry};

/// Problems, sorted by object, without duplicates. The cost of a change does not depend on the
/// number of other problems.
pub type Problems = OrdSet<Arc<Problem>>;

/// The problems of all sources.
pub struct ProblemIndex {
    telemetry: Arc<Telemetry>,
    all: ArcSwap<Problems>,
    reported: Mutex<Reported>,
}

/// The state of the client listeners.
#[derive(Debug)]
pub(crate) struct Listening {
    /// Whether requests can arrive.
    pub(crate) serves: bool,
    /// Problems of the sockets.
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
    /// The addresses of health and introspection.
    admin: Vec<OwnListener>,
    /// Logs that cannot be opened, by name.
    logs: BTreeMap<&'static str, Vec<Arc<Problem>>>,
    /// A proxy that is not trusted.
    proxies: Vec<Arc<Problem>>,
    /// The folder of stored responses.
    cache_folder: Vec<Arc<Problem>>,
    /// Databases of locations.
    locations: Vec<Arc<Problem>>,
    /// A collector that does not accept spans or log records, by these names.
    collectors: BTreeMap<&'static str, Vec<Arc<Problem>>>,
    /// Firewalls that do not inspect requests.
    firewalls: Vec<Arc<Problem>>,
    /// An expression that reached its step limit.
    expressions: Vec<Arc<Problem>>,
    /// Replicas that do not report their use of limits.
    replicas: Vec<Arc<Problem>>,
}

impl ProblemIndex {
    pub(super) fn new(telemetry: Arc<Telemetry>) -> Self {
        Self { telemetry, all: ArcSwap::default(), reported: Mutex::default() }
    }

    /// All problems, sorted by object.
    pub fn all(&self) -> Arc<Problems> {
        self.all.load_full()
    }

    /// Adds and removes problems of the control plane.
    pub fn change(&self, appeared: &[Arc<Problem>], resolved: &[Arc<Problem>]) {
        let _reported = self.reported();
        self.publish(appeared, resolved);
    }

    /// Records the state of the client listeners, which must not be endpoints.
    pub(crate) fn set_listening(
        &self,
        registry: &Registry,
        readiness: &Readiness,
        look: impl FnOnce() -> Listening,
    ) {
        // Called with the lock held: of two callers, the later one has the newer state.
        let mut reported = self.reported();
        let Listening { serves, problems, addresses } = look();
        self.replace(&mut reported.listeners, problems);
        readiness.set_bound(serves);
        self.set_own(registry, &mut reported, |reported| &mut reported.traffic, addresses);
    }

    /// Records whether a log can be opened. Its name completes "the ... log".
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
        let mut reported = self.reported();
        let known = reported.logs.entry(name).or_default();
        if known.iter().map(|problem| &**problem).eq(&problem) {
            return;
        }
        if let Some(problem) = &problem {
            tracing::error!(%problem, "a log cannot be opened");
        }
        self.replace(reported.logs.entry(name).or_default(), problem.into_iter().collect());
    }

    /// Records a proxy that is not trusted, instead of the previous one.
    pub(super) fn set_distrusted_proxy(&self, report: Option<(DistrustedProxy, u64)>) {
        let problems = report.map(|(proxy, requests)| proxy.problem(requests)).into_iter().collect();
        for problem in self.replace(&mut self.reported().proxies, problems) {
            tracing::error!(%problem, "a proxy is not trusted");
        }
    }

    /// Records whether the folder of stored responses is usable.
    pub(crate) fn set_cache_folder_fault(&self, fault: Option<&FolderFault>) {
        let problems = fault.map(FolderFault::problem).into_iter().collect();
        for problem in self.replace(&mut self.reported().cache_folder, problems) {
            tracing::error!(%problem, "responses are stored in memory only");
        }
    }

    /// Records the problems of the databases of locations.
    pub(super) fn set_location_problems(&self, problems: Vec<Problem>) {
        for problem in self.replace(&mut self.reported().locations, problems) {
            tracing::error!(%problem, "locations of clients are not available");
        }
    }

    /// Records whether the collector accepts these records.
    pub(crate) fn set_collector_fault(&self, records: &'static str, fault: Option<CollectorFault>) {
        let problem = fault.map(|CollectorFault { collector, reason }| Problem {
            object: ObjectRef::new("Collector", "", &collector),
            field: "otlp-collector-host".into(),
            uid: None,
            severity: Severity::Error,
            code: Code::CollectorUnavailable,
            message: format!(
                "the collector {reason}; {records} are sent again for a minute, and dropped when the queue is full"
            ),
            remedy: "check that the collector runs and receives OTLP at this address, or correct otlp-collector-host \
                     and otlp-collector-port in the ConfigMap"
                .into(),
        });
        let mut reported = self.reported();
        let known = reported.collectors.entry(records).or_default();
        for problem in self.replace(known, problem.into_iter().collect()) {
            tracing::warn!(%problem, "a collector is not available");
        }
    }

    /// Records what prevents the inspections of firewalls.
    pub(crate) fn set_firewall_faults(&self, agent: SocketAddr, faults: DeliveryFaults) {
        let unavailable = faults.agent.map(|reason| Problem {
            object: ObjectRef::new("Agent", "", &agent.to_string()),
            field: "--waf-agent".into(),
            uid: None,
            severity: Severity::Error,
            code: Code::FirewallAgentUnavailable,
            message: format!(
                "the agent of the web application firewall {reason}; routes whose firewall enforces its rules answer \
                 503, the others are served without inspection"
            ),
            remedy: "check that the agent runs and listens at this address, or correct the flag".into(),
        });
        let refused = faults.configurations.into_iter().map(|fault| {
            let effect = match fault.enforces {
                true => "its routes answer 503",
                false => "its routes are served without inspection",
            };
            Problem {
                object: fault.source.object,
                field: fault.source.field.to_string(),
                uid: None,
                severity: Severity::Error,
                code: Code::FirewallRefused,
                message: format!(
                    "the firewall's agent cannot compile the directives: {}; {effect}",
                    fault.reason
                ),
                remedy: "correct the directive that the message names".into(),
            }
        });
        let problems = unavailable.into_iter().chain(refused).collect();
        for problem in self.replace(&mut self.reported().firewalls, problems) {
            tracing::error!(%problem, "a firewall does not inspect requests");
        }
    }

    /// Records what prevents the exchange of the use of limits with other replicas.
    pub(super) fn set_replica_faults(&self, report: &ReplicaReport) {
        let problem = |object, field: &str, message, remedy: &str| Problem {
            object,
            field: field.into(),
            uid: None,
            severity: Severity::Warning,
            code: Code::ReplicaUnreachable,
            message,
            remedy: remedy.into(),
        };
        let own = report.not_published.iter().map(|(field, reason)| {
            let message =
                format!("this replica does not report its use of limits: {reason}; the others grant less");
            let remedy =
                "free the address, or correct the flag or the Secret; it is picked up without a restart";
            problem(ObjectRef::new("Replica", "", "own"), field, message, remedy)
        });
        let others = report.unreachable.iter().map(|(address, reason)| {
            let message = format!("its use of limits is unknown: {reason}; this replica grants less");
            let remedy = "check that the replica runs, and that network policies let replicas reach its port";
            problem(ObjectRef::new("Replica", "", &address.to_string()), "address", message, remedy)
        });
        let problems = own.chain(others).collect();
        for problem in self.replace(&mut self.reported().replicas, problems) {
            tracing::warn!(%problem, "limits are not exact across replicas");
        }
    }

    /// Records an expression that reached its step limit, instead of the previous one.
    pub(super) fn set_step_limit(&self, report: Option<(StepLimitReport, u64)>) {
        let problems = report.map(|(report, requests)| report.problem(requests)).into_iter().collect();
        for problem in self.replace(&mut self.reported().expressions, problems) {
            tracing::error!(%problem, "an expression reached its step limit");
        }
    }

    /// Records the addresses of health and introspection, which must not be endpoints.
    pub(crate) fn set_admin_listeners(&self, registry: &Registry, listeners: Vec<OwnListener>) {
        self.set_own(registry, &mut self.reported(), |reported| &mut reported.admin, listeners);
    }

    /// Finds endpoints that are the gateway's own listeners, after the registry has changed.
    pub(crate) fn registry_changed(&self, registry: &Registry) {
        self.find_own_endpoints(registry, &mut self.reported());
    }

    fn set_own(
        &self,
        registry: &Registry,
        reported: &mut Reported,
        part: impl FnOnce(&mut Reported) -> &mut Vec<OwnListener>,
        listeners: Vec<OwnListener>,
    ) {
        if std::mem::replace(part(reported), listeners.clone()) == listeners {
            return;
        }
        let all = reported.admin.iter().chain(&reported.traffic).cloned().collect();
        registry.set_own_listeners(all);
        self.find_own_endpoints(registry, reported);
    }

    fn find_own_endpoints(&self, registry: &Registry, reported: &mut Reported) {
        let Some(own) = registry.own_endpoints() else { return };
        let appeared = self.replace(&mut reported.own, own.iter().map(OwnEndpoint::problem).collect());
        for problem in appeared {
            tracing::warn!(%problem, "an endpoint is refused");
        }
    }

    /// Replaces problems, and returns those that are new.
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

    /// Must be called with the lock held.
    fn publish(&self, appeared: &[Arc<Problem>], resolved: &[Arc<Problem>]) {
        if appeared.is_empty() && resolved.is_empty() {
            return;
        }
        let mut all = Problems::clone(&self.all.load());
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
        self.all.store(Arc::new(all));
    }

    fn reported(&self) -> MutexGuard<'_, Reported> {
        // Lists are replaced as a whole, so a panic elsewhere leaves no list half changed.
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
