//! `orphan_ingress`: Ingresses with a backend that cannot serve requests. Computed at each scrape
//! from the current configuration, so no series outlives its fault.

use std::collections::BTreeSet;

use prometheus::IntGaugeVec;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use sluice_config::{Action, Backend, EndpointSetKey, ObjectRef};

use super::options::TelemetryOptions;
use crate::telemetry::configuration::Configuration;

const NO_ENDPOINT: &str = "no-endpoint";
const NO_SERVICE: &str = "no-service";

/// An Ingress and the missing part of one of its backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Orphan<'a> {
    pub(super) namespace: &'a str,
    pub(super) ingress: &'a str,
    pub(super) missing: &'static str,
}

/// Returns the orphaned Ingresses, once for each kind of missing part.
pub(crate) fn of<'a>(
    configuration: &'a Configuration,
    is_empty: impl Fn(&EndpointSetKey) -> bool,
) -> BTreeSet<Orphan<'a>> {
    let mut orphans = BTreeSet::new();
    let mut add = |object: &'a ObjectRef, missing| {
        if &*object.kind == "Ingress" {
            orphans.insert(Orphan { namespace: &object.name.namespace, ingress: &object.name.name, missing });
        }
    };
    for rule in configuration.hosts.iter().flat_map(|(_, host)| &host.rules) {
        let Action::Forward(backends) = &rule.action else { continue };
        for weighted in backends {
            match &weighted.backend {
                Backend::Pool { pool, .. } if is_empty(&pool.endpoints) => {
                    add(&rule.origin.object, NO_ENDPOINT);
                }
                Backend::Invalid { service: Some(_), .. } => add(&rule.origin.object, NO_SERVICE),
                _ => {}
            }
        }
        for canary in rule.policies.canaries.iter().filter(|canary| is_empty(&canary.pool.endpoints)) {
            add(&canary.object, NO_ENDPOINT);
        }
        rule.policies.canaries_without_service.iter().for_each(|canary| add(canary, NO_SERVICE));
    }
    orphans
}

pub(super) fn families(
    options: &TelemetryOptions,
    orphans: &BTreeSet<Orphan<'_>>,
) -> Result<Vec<MetricFamily>, prometheus::Error> {
    let help = "Ingresses with a backend whose Service does not exist, or has no endpoint.";
    let opts = super::reference_opts(options, "orphan_ingress", help);
    let gauges = IntGaugeVec::new(opts, &["namespace", "ingress", "type"])?;
    for Orphan { namespace, ingress, missing } in orphans {
        gauges.with_label_values(&[namespace, ingress, missing]).set(1);
    }
    Ok(gauges.collect())
}
