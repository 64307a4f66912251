//! Tests run in the cluster of a kubeconfig, instead of a lab of their own.

use anyhow::{Result, ensure};
use sluice_lab::harness::in_lab;
use tokio::process::Command;

/// Tests with the gateway as a Pod and as a process, with few rights, and through a wire in front
/// of the API server.
const EVERYWHERE: [&str; 4] = [
    "source::a_pod_serves_with_its_service_account",
    "secrets::a_certificate_that_is_there_is_served_rotated_and_gone",
    "rights::a_role_of_one_namespace_is_enough",
    "snapshot::a_damaged_file_is_reported_and_ignored",
];

/// A test that kills nodes.
const LAB_ALONE: &str = "faults::a_frozen_node_takes_connections_and_does_not_answer";

/// The cluster is a lab, of which the tests get only the kubeconfig.
#[test]
fn the_tests_run_in_the_cluster_that_a_kubeconfig_leads_to() {
    in_lab(async |_, lab| -> Result<()> {
        let output = Command::from(lab.command(std::env::current_exe()?))
            .env("SLUICE_TEST_KUBECONFIG", lab.kubeconfig())
            .env("SLUICE_TEST_IMAGES", "registry.example/tests/")
            .args(["--exact", "--nocapture", LAB_ALONE])
            .args(EVERYWHERE)
            .output()
            .await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{text}\n{said}");
        let ran = format!("test result: ok. {} passed", EVERYWHERE.len() + 1);
        ensure!(text.contains(&ran), "{text}\n{said}");
        let skipped: Vec<&str> = said.lines().filter(|line| line.starts_with("skipped: ")).collect();
        ensure!(skipped.len() == 1 && skipped[0].contains(LAB_ALONE), "{skipped:?}");
        Ok(())
    });
}
