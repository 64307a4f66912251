//! The reference's request metrics, without a label, a lock or a hash while a request is recorded.
//!
//! All labels but method and status are known when a route is compiled. What a route records into
//! ([`TargetMeters`]) keeps plain atomics for each (method, status) it has seen ([`series`]), in a small sorted list
//! that is replaced as a whole when it grows: to record is one search and a few additions. Labels and Prometheus' own
//! types are made at the scrape ([`collector`]), because kept ones cost some 15 KiB for each (method, status).
//!
//! Routes with equal labels share one `TargetMeters`, a new version of a route takes over the one of the old
//! version, and when the last is dropped its figures go with it. So a counter survives every change of its
//! Ingress but its end. There is one for every backend of a route, most of which never see a request: so they
//! share the texts of the configuration, and their list is the empty one of all until there is something in it. That of
//! answers that no backend has a part in is made with the first of them.

mod collector;
mod family;
mod histogram;
mod method;
mod own;
mod series;
mod target;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwap;
use prometheus::Registry;

use super::error::TelemetryError;
use super::options::Options;
use crate::per_worker::PerWorker;
use collector::RequestCollector;
use family::Families;
use own::Own;
use series::Series;
use target::Cells;

pub use series::Sample;
pub use target::{TargetLabels, TargetMeters};

/// Hosts without an Ingress that get series of their own; more are put together under `_`, because the
/// names come from clients. Each may have some 15 KiB of series for each method on the page.
const UNDEFINED_HOSTS: usize = 200;
/// Bytes of such a name: more than a name in the DNS has (RFC 1035 §3.1) is none.
const NAME: usize = 253;
/// What all other hosts are put together under.
const OTHERS: &str = "_";

/// All request metrics.
pub struct RequestMeters {
    families: Families,
    per_host: bool,
    per_undefined_host: bool,
    status_classes: bool,
    targets: Mutex<Targets>,
    no_cells: Arc<Cells>,
    own: PerWorker<Own>,
    undefined: ArcSwap<HashMap<String, Arc<TargetMeters>>>,
}

type Targets = HashMap<Arc<TargetLabels>, Weak<TargetMeters>>;

impl RequestMeters {
    /// Registers the metrics. Fails on buckets that do not rise and on two metrics of one name.
    pub fn new(options: &Options, registry: &Registry) -> Result<Arc<Self>, TelemetryError> {
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

    /// The meters of a target, shared by all that have its labels.
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

    /// The meters of a target, if it has any.
    pub fn known_target(&self, mut labels: TargetLabels) -> Option<Arc<TargetMeters>> {
        self.fit(&mut labels);
        self.lock().get(&labels)?.upgrade()
    }

    fn record(&self, series: &Series, sample: &Sample) {
        if !self.own.own().is_some_and(|own| own.record(series, &self.families, sample)) {
            series.record(&self.families, sample);
        }
    }

    fn fit(&self, labels: &mut TargetLabels) {
        if !self.per_host {
            labels.host = Arc::default();
        }
    }

    /// The meters of a host that no Ingress names; `None` unless they are asked for.
    pub fn undefined_host(self: &Arc<Self>, host: &str) -> Option<Arc<TargetMeters>> {
        if !(self.per_undefined_host && self.per_host) {
            return None;
        }
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
            // Another worker may have filled it since; what is not kept here goes with its request.
            if known.len() < UNDEFINED_HOSTS || host == OTHERS {
                known.insert(host.to_owned(), target.clone());
            }
            known
        });
        Some(target)
    }

    /// All targets there are.
    fn targets(&self) -> Vec<Arc<TargetMeters>> {
        // They are let go after the lock: the last reference to one takes it itself.
        self.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// Forgets a target whose last reference has gone.
    fn forget(&self, labels: &Arc<TargetLabels>) {
        let mut targets = self.lock();
        // A successor with the same labels may have been made since.
        if targets.get(labels).is_some_and(|target| target.strong_count() == 0) {
            targets.remove(labels);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Targets> {
        // The map is whole after every statement: a panic elsewhere leaves nothing half done.
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for RequestMeters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestMeters").finish_non_exhaustive()
    }
}
