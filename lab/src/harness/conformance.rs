//! Gateway API's conformance suite, run against a test's cluster.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use super::Cluster;
use crate::programs::{Unit, find};

/// A run of the suite that has not started. The suite creates namespaces with fixed names, so only
/// one run per cluster is possible at a time.
#[derive(Clone, Debug)]
pub struct Conformance {
    options: Map<String, Value>,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Conformed {
    /// Whether all tests that ran have passed.
    pub passed: bool,
    /// The suite's report. `None` if it did not reach its first test.
    pub report: Option<Value>,
    /// The output of the suite.
    pub output: String,
}

impl Conformance {
    /// Creates a run of the profile GATEWAY-HTTP with a GatewayClass.
    pub fn new(class: &str) -> Self {
        let Value::Object(options) = json!({
            "gatewayClassName": class,
            "conformanceProfiles": ["GATEWAY-HTTP"],
            "cleanupBaseResources": true,
            "cleanupTestResources": true,
            "implementation": {"organization": "sluice", "project": "sluice", "url": "https://sluice.dev",
                "version": env!("CARGO_PKG_VERSION"), "contact": ["https://sluice.dev"]},
        }) else {
            unreachable!("an object was written above")
        };
        Self { options }
    }

    /// Sets an option, by its name in the suite's options file (`runTest`, `supportedFeatures`,
    /// `timeoutConfig`, ...).
    #[must_use]
    pub fn option(mut self, name: &str, value: Value) -> Self {
        self.options.insert(name.to_owned(), value);
        self
    }

    /// Sets timeouts of the suite, by their names in `timeoutConfig`. Others keep their defaults.
    #[must_use]
    pub fn timeouts(self, limits: &[(&str, Duration)]) -> Self {
        let nanoseconds = |limit: &Duration| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let limits: Map<String, Value> =
            limits.iter().map(|(name, limit)| ((*name).to_owned(), nanoseconds(limit).into())).collect();
        self.option("timeoutConfig", limits.into())
    }

    /// Runs the suite with a time limit. Failed tests are not an error.
    ///
    /// # Errors
    /// Returns an error if the suite is not built or not finished in time, or its report does not
    /// parse.
    pub async fn run(mut self, cluster: &Cluster, limit: Duration) -> Result<Conformed> {
        let (options, report) = (cluster.file("conformance.yaml"), cluster.file("conformance-report.yaml"));
        self.options.insert("reportOutputPath".to_owned(), report.display().to_string().into());
        fs::write(&options, Value::Object(self.options).to_string())?;
        let suite = find(Unit::Conformance, "conformance.test")?;
        let running = Command::from(cluster.command(suite))
            .args(["-test.run=^TestConformance$", "-test.v"])
            .arg(format!("-conformance-options-file={}", options.display()))
            .kill_on_drop(true)
            .output();
        let output = timeout(limit, running).await.context("the conformance suite is not done in time")??;
        let report = report
            .exists()
            .then(|| serde_yaml::from_str(&fs::read_to_string(&report)?).map_err(anyhow::Error::from));
        Ok(Conformed {
            passed: output.status.success(),
            report: report.transpose()?,
            output: String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        })
    }
}

impl Cluster {
    /// Applies the standard CRDs of Gateway API, in the version of the conformance suite.
    ///
    /// # Errors
    /// Returns an error if the suite is not built, or the API refuses something.
    pub async fn apply_gateway_api(&self) -> Result<()> {
        let folder = find(Unit::Conformance, "conformance.test")?.with_file_name("standard");
        let output = self.kubectl().args(["apply", "--server-side", "-f"]).arg(&folder).output()?;
        anyhow::ensure!(output.status.success(), "kubectl: {}", String::from_utf8_lossy(&output.stderr));
        let established = ["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"];
        let output = self.kubectl().args(established).output()?;
        anyhow::ensure!(output.status.success(), "kubectl: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}
