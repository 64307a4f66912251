//! Results of active health checks. Computed at each scrape, so no series outlives its endpoint.
//! There are no series if nothing is checked.

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts};

use crate::registry::HealthCheckResults;

pub(super) fn families(checked: &HealthCheckResults) -> Result<Vec<MetricFamily>, prometheus::Error> {
    let HealthCheckResults { endpoints, passed, failed } = checked;
    let healthy = IntGaugeVec::new(
        Opts::new(
            "sluice_endpoint_healthy",
            "Whether an endpoint passes its active health check (sluice.dev/health-check-*).",
        ),
        &["namespace", "service", "port", "address", "check"],
    )?;
    for endpoint in endpoints {
        let (set, address) = (&endpoint.set, endpoint.address.to_string());
        let labels = [&*set.namespace, &set.service, &set.port, &address, &endpoint.check];
        healthy.with_label_values(&labels).set(endpoint.is_healthy.into());
    }
    let checks =
        IntCounterVec::new(Opts::new("sluice_health_checks_total", "Active health checks."), &["outcome"])?;
    for (outcome, count) in [("passed", passed), ("failed", failed)] {
        if *count > 0 {
            checks.with_label_values(&[outcome]).inc_by(*count);
        }
    }
    let mut all = healthy.collect();
    all.extend(checks.collect());
    Ok(all)
}
