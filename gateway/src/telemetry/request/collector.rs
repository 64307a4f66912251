//! Converts the figures of all targets into Prometheus' types at each scrape.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{LabelPair, MetricFamily, MetricType};

use super::RequestMeters;
use super::exemplars::Exemplar;
use super::family::Family;
use super::native::NativeHistogram;
use super::own::{self, WorkerRows};
use super::target::{Cell, TargetLabels};
use crate::telemetry::options::TelemetryOptions;

/// Exports [`RequestMeters`] at a scrape.
pub(in crate::telemetry) struct RequestCollector {
    meters: Arc<RequestMeters>,
    namespace: String,
    class: String,
    pod: String,
}

impl RequestCollector {
    pub(in crate::telemetry) fn new(meters: Arc<RequestMeters>, options: &TelemetryOptions) -> Self {
        Self {
            meters,
            namespace: options.controller_namespace.clone(),
            class: options.controller_class.clone(),
            pod: options.controller_pod.clone(),
        }
    }

    /// Returns the labels of a cell, sorted by name, which is the order in which they are printed.
    fn labels(&self, target: &TargetLabels, cell: Cell) -> Vec<LabelPair> {
        let status = match self.meters.status_classes {
            true => format!("{}xx", cell.status / 100),
            false => cell.status.to_string(),
        };
        let all = [
            ("canary", &*target.canary),
            ("controller_class", &self.class),
            ("controller_namespace", &self.namespace),
            ("controller_pod", &self.pod),
            ("host", &target.host),
            ("ingress", &target.ingress),
            ("method", cell.method.text()),
            ("namespace", &target.namespace),
            ("path", &target.path),
            ("service", &target.service),
            ("status", &status),
        ];
        let shown = all.into_iter().filter(|(name, _)| *name != "host" || self.meters.per_host);
        let pair = |(name, value): (&str, &str)| {
            let mut pair = LabelPair::default();
            pair.set_name(name.to_owned());
            pair.set_value(value.to_owned());
            pair
        };
        shown.map(pair).collect()
    }
}

/// What the text format has no place for, of one series of durations.
#[derive(Debug, Default)]
pub(in crate::telemetry) struct DurationDetails {
    pub(in crate::telemetry) native: Option<NativeHistogram>,
    /// Of requests with a sampled trace, each with its bucket.
    pub(in crate::telemetry) exemplars: Vec<(usize, Exemplar)>,
}

/// Details by name of the metric and by labels.
pub(in crate::telemetry) type AllDetails = HashMap<String, HashMap<SeriesKey, DurationDetails>>;

/// The labels of a series within its metric.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::telemetry) struct SeriesKey(Vec<(String, String)>);

impl SeriesKey {
    pub(in crate::telemetry) fn of(labels: &[LabelPair]) -> Self {
        Self(labels.iter().map(|pair| (pair.name().to_owned(), pair.value().to_owned())).collect())
    }
}

impl RequestCollector {
    /// Returns the details of all series of durations.
    pub(in crate::telemetry) fn details(&self) -> AllDetails {
        let families = &self.meters.families;
        let mut all = AllDetails::new();
        let kept: Vec<_> = self.meters.own.all().map(WorkerRows::keep).collect();
        for target in self.meters.targets() {
            for (cell, series) in target.cells().iter() {
                let mut of_requests = series.exemplars().read();
                if families.native.is_none() && of_requests.is_empty() {
                    continue;
                }
                let key = SeriesKey::of(&self.labels(target.labels(), *cell));
                let figures = own::sum(series, &kept);
                for (family, desc) in &families.kept {
                    let exemplars = match family {
                        Family::Request => mem::take(&mut of_requests),
                        _ => Vec::new(),
                    };
                    let native = figures.native(*family, families);
                    if native.is_some() || !exemplars.is_empty() {
                        let of_family = all.entry(desc.fq_name.clone()).or_default();
                        of_family.insert(key.clone(), DurationDetails { native, exemplars });
                    }
                }
            }
        }
        all
    }
}

impl Collector for RequestCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.meters.families.kept.iter().map(|(_, desc)| desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let families = &self.meters.families;
        let mut all: Vec<(Family, MetricFamily)> =
            families.kept.iter().map(|(family, desc)| (*family, empty(*family, desc))).collect();
        let kept: Vec<_> = self.meters.own.all().map(WorkerRows::keep).collect();
        for target in self.meters.targets() {
            for (cell, series) in target.cells().iter() {
                let labels = self.labels(target.labels(), *cell);
                let figures = own::sum(series, &kept);
                for (family, shown) in &mut all {
                    if let Some(mut metric) = figures.collect(*family, families) {
                        metric.set_label(labels.clone());
                        shown.mut_metric().push(metric);
                    }
                }
            }
        }
        all.into_iter().map(|(_, shown)| shown).collect()
    }
}

fn empty(family: Family, desc: &Desc) -> MetricFamily {
    let mut shown = MetricFamily::default();
    shown.set_name(desc.fq_name.clone());
    shown.set_help(desc.help.clone());
    shown.set_field_type(match family {
        Family::Requests => MetricType::COUNTER,
        _ => MetricType::HISTOGRAM,
    });
    shown
}
