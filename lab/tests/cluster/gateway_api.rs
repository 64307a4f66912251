//! The conformance suite of Gateway API runs in a cluster and reports results. Sluice does not
//! implement Gateway API.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use sluice_lab::harness::{Cluster, Conformance, own};
use sluice_lab::lab::Options;
use sluice_lab::programs::Unit;

const CLASS: &str = "nobodys";

/// One test of a feature that every implementation must have.
fn suite() -> Conformance {
    let short = Duration::from_secs(3);
    Conformance::new(CLASS)
        .option("runTest", json!("HTTPRouteSimpleSameNamespace"))
        .timeouts(&[("gwcMustBeAccepted", short)])
}

#[test]
fn an_unserved_class_does_not_conform() {
    if !Unit::Conformance.is_built() {
        println!("skipped: the suite is not built, which `sluice-lab build conformance` does");
        return;
    }
    own(Options::default().settings, async |cluster: &Cluster, _| -> Result<()> {
        cluster.apply_gateway_api().await?;
        cluster
            .apply(&format!(
                "{{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {{name: {CLASS}}}, spec: \
                 {{controllerName: example.com/nobody}}}}"
            ))
            .await?;
        let run = suite().run(cluster, Duration::from_secs(120)).await?;
        ensure!(!run.passed && run.report.is_none(), "{run:?}");
        for words in ["Ensuring GatewayClass has been accepted", "--- FAIL: TestConformance"] {
            ensure!(run.output.contains(words), "no {words:?} in {}", run.output);
        }
        Ok(())
    });
}
