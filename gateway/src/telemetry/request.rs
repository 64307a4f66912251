//! The request metrics of the reference. Recording a request needs no label, lock or hash.
//!
//! All labels except method and status are known when a route is compiled. A route records into a
//! [`TargetMeters`], which holds plain atomics for each (method, status) that occurred
//! ([`series`]), in a small sorted list that is replaced as a whole when it grows: recording is one
//! search and a few additions. Labels and Prometheus' own types are created at the scrape
//! ([`collector`]), because keeping them would cost about 15 KiB for each (method, status).
//!
//! Routes with equal labels share one `TargetMeters`, and a new version of a route takes over that
//! of the old version. A counter thus survives changes of its Ingress, and is removed with the last
//! route that uses it. There is one `TargetMeters` for each backend of a route, most of which never
//! receive a request. They therefore share the strings of the configuration, and one common empty
//! list until the first request. The one for responses without a backend is created with the first
//! such response.

mod collector;
mod exemplars;
mod family;
mod histogram;
mod method;
mod native;
mod own;
mod series;
mod target;
#[cfg(test)]
mod tests;
mod traffic;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use prometheus::Registry;

use super::error::TelemetryError;
use super::options::TelemetryOptions;
use crate::process::per_worker::PerWorker;
use family::Families;
use own::WorkerRows;
use series::Series;
use target::Cells;

pub(super) use collector::{AllDetails, DurationDetails, RequestCollector, SeriesKey};
pub(super) use exemplars::Exemplar;
pub(super) use native::{NativeHistogram, zero_threshold};
pub use series::RequestSample;
pub use target::{TargetLabels, TargetMeters};
pub(crate) use traffic::TargetTraffic;
pub use traffic::{Quantile, Traffic};

/// Maximum number of hosts without an Ingress that have series of their own; the others share `_`,
/// because clients choose these names. Each series costs about 15 KiB on the page per method.
const UNDEFINED_HOSTS: usize = 200;
/// Maximum length of such a name in bytes: the maximum of DNS (RFC 1035 §3.1).
const NAME: usize = 253;
/// Label of all other hosts.
const OTHERS: &str = "_";

/// All request metrics.
pub struct RequestMeters {
    families: Families,
    per_host: bool,
    per_undefined_host: bool,
    status_classes: bool,
    targets: Mutex<Targets>,
    no_cells: Arc<Cells>,
    own: PerWorker<WorkerRows>,
    undefined: ArcSwap<HashMap<String, Arc<TargetMeters>>>,
}

type Targets = HashMap<Arc<TargetLabels>, Weak<TargetMeters>>;

impl RequestMeters {
    /// Registers the metrics.
    ///
    /// # Errors
    /// The bounds of a histogram are not ascending, or two metrics have the same name.
    pub fn new(options: &TelemetryOptions, registry: &Registry) -> Result<Arc<Self>, TelemetryError> {
        let meters = Arc::new(Self {
            families: Families::new(options)?,
            per_host: options.per_host,
            per_undefined_host: options.per_undefined_host,
            status_classes: options.status_classes,
            targets: Mutex::default(),
            no_cells: Arc::default(),
            own: PerWorker::default(),
            undefined: ArcSwap::default(),
        });
        registry.register(Box::new(RequestCollector::new(meters.clone(), options)))?;
        Ok(meters)
    }

    /// Returns the meters of a target. Targets with equal labels share them.
    pub fn target(self: &Arc<Self>, mut labels: TargetLabels) -> Arc<TargetMeters> {
        self.fit(&mut labels);
        let mut targets = self.lock();
        if let Some(target) = targets.get(&labels).and_then(Weak::upgrade) {
            return target;
        }
        let labels = Arc::new(labels);
        let target = Arc::new(TargetMeters::new(self.clone(), labels.clone()));
        targets.insert(labels, Arc::downgrade(&target));
        target
    }

    /// Returns the meters of a target, if they exist.
    pub fn known_target(&self, mut labels: TargetLabels) -> Option<Arc<TargetMeters>> {
        self.fit(&mut labels);
        self.lock().get(&labels)?.upgrade()
    }

    fn record(&self, series: &Series, sample: &RequestSample) {
        if let Some(trace) = sample.trace {
            let exemplar = Exemplar { trace, value: sample.request.as_secs_f64(), at: SystemTime::now() };
            series.exemplars().keep(&self.families.times, exemplar);
        }
        if !self.own.own().is_some_and(|own| own.record(series, &self.families, sample)) {
            series.record(&self.families, sample);
        }
    }

    fn fit(&self, labels: &mut TargetLabels) {
        if !self.per_host {
            labels.host = Arc::default();
        }
    }

    /// Returns the meters of a host without an Ingress; `None` if they are disabled. Without the
    /// label `host`, such requests always count, as in ingress-nginx: they share one series.
    pub fn undefined_host(self: &Arc<Self>, host: &str) -> Option<Arc<TargetMeters>> {
        let host = match (self.per_host, self.per_undefined_host) {
            (false, _) => "",
            (true, true) => host,
            (true, false) => return None,
        };
        let known = self.undefined.load();
        if let Some(target) = known.get(host) {
            return Some(target.clone());
        }
        let room = known.len() < UNDEFINED_HOSTS && host.len() <= NAME;
        let host = if room { host } else { OTHERS };
        if let Some(target) = known.get(host) {
            return Some(target.clone());
        }
        let target = self.target(TargetLabels { host: host.into(), ..TargetLabels::default() });
        self.undefined.rcu(|known| {
            let mut known = HashMap::clone(known);
            // Another worker may have filled the map meanwhile; meters that are not stored are
            // dropped with their request.
            if known.len() < UNDEFINED_HOSTS || host == OTHERS {
                known.insert(host.to_owned(), target.clone());
            }
            known
        });
        Some(target)
    }

    /// Returns all targets.
    fn targets(&self) -> Vec<Arc<TargetMeters>> {
        // The returned targets must be dropped after the lock is released: dropping the last
        // reference takes this lock.
        self.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// Removes a target after its last reference was dropped.
    fn forget(&self, labels: &Arc<TargetLabels>) {
        let mut targets = self.lock();
        // A successor with the same labels may exist already.
        if targets.get(labels).is_some_and(|target| target.strong_count() == 0) {
            targets.remove(labels);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Targets> {
        // Poisoning can be ignored: the map is consistent after each statement.
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for RequestMeters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestMeters").finish_non_exhaustive()
    }
}
