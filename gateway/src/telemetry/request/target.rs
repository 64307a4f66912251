//! Records the requests of one target.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use http::Method;
use smallvec::SmallVec;

use super::RequestMeters;
use super::method::MethodLabel;
use super::series::{RequestSample, Series};

/// The labels of a target that do not depend on the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TargetLabels {
    /// The host as written in the Ingress.
    pub host: Arc<str>,
    /// The path as written in the Ingress.
    pub path: Arc<str>,
    /// Namespace of the Ingress.
    pub namespace: Arc<str>,
    /// Name of the Ingress.
    pub ingress: Arc<str>,
    /// Name of the Service.
    pub service: Arc<str>,
    /// `namespace-service-port` of the canary that served the request.
    pub canary: Arc<str>,
}

/// The metrics of requests to one target.
pub struct TargetMeters {
    meters: Arc<RequestMeters>,
    labels: Arc<TargetLabels>,
    cells: ArcSwap<Cells>,
}

/// Sorted by cell. Most targets have one or two.
pub(super) type Cells = SmallVec<[(Cell, Series); 2]>;

/// The labels that depend on the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) method: MethodLabel,
    /// The first status of its class, if classes are reported.
    pub(super) status: u16,
}

impl TargetMeters {
    pub(super) fn new(meters: Arc<RequestMeters>, labels: Arc<TargetLabels>) -> Self {
        let cells = ArcSwap::new(meters.no_cells.clone());
        Self { meters, labels, cells }
    }

    /// Records a request that has ended.
    pub fn record(&self, method: &Method, status: u16, sample: &RequestSample) {
        let status = if self.meters.status_classes { status / 100 * 100 } else { status };
        let cell = Cell { method: MethodLabel::of(method), status };
        let cells = self.cells.load();
        match cells.binary_search_by_key(&cell, |(cell, _)| *cell) {
            Ok(at) => self.meters.record(&cells[at].1, sample),
            Err(_) => self.with_cell(cell, |series| self.meters.record(series, sample)),
        }
    }

    pub(super) fn labels(&self) -> &TargetLabels {
        &self.labels
    }

    pub(super) fn shared_labels(&self) -> Arc<TargetLabels> {
        self.labels.clone()
    }

    pub(super) fn cells(&self) -> Guard<Arc<Cells>> {
        self.cells.load()
    }

    /// Adds a cell, unless another thread has just added it, and records into it.
    fn with_cell(&self, cell: Cell, record: impl FnOnce(&Series)) {
        let series = Series::new(&self.meters.families);
        self.cells.rcu(|cells| match cells.binary_search_by_key(&cell, |(cell, _)| *cell) {
            Ok(_) => cells.clone(),
            Err(at) => {
                let mut more = Cells::clone(cells);
                more.insert(at, (cell, series.clone()));
                Arc::new(more)
            }
        });
        let cells = self.cells.load();
        let at = cells.binary_search_by_key(&cell, |(cell, _)| *cell).expect("cells are only ever added");
        record(&cells[at].1);
    }
}

impl Drop for TargetMeters {
    fn drop(&mut self) {
        self.meters.forget(&self.labels);
    }
}

impl std::fmt::Debug for TargetMeters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TargetMeters").field("labels", &self.labels).finish_non_exhaustive()
    }
}
