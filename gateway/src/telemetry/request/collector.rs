//! Converts the figures of all targets into Prometheus' types at each scrape.

use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{LabelPair, MetricFamily, MetricType};

use super::RequestMeters;
use super::family::Family;
use super::own::Own;
use super::target::{Cell, TargetLabels};
use crate::telemetry::options::Options;

/// Exports [`RequestMeters`] at a scrape.
pub(super) struct RequestCollector {
    meters: Arc<RequestMeters>,
    namespace: String,
    class: String,
    pod: String,
}

impl RequestCollector {
    pub(super) fn new(meters: Arc<RequestMeters>, options: &Options) -> Self {
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

impl Collector for RequestCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.meters.families.kept.iter().map(|(_, desc)| desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let families = &self.meters.families;
        let mut all: Vec<(Family, MetricFamily)> =
            families.kept.iter().map(|(family, desc)| (*family, empty(*family, desc))).collect();
        let kept: Vec<_> = self.meters.own.all().map(Own::keep).collect();
        for target in self.meters.targets() {
            for (cell, series) in target.cells().iter() {
                let labels = self.labels(target.labels(), *cell);
                let figures = series.sum(&kept);
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
