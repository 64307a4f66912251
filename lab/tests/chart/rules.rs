//! Alerts: the metrics of alerts and dashboards exist, and each alert is raised under its
//! condition.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::helm::{chart, root};
use crate::promtool::promtool;

/// An alert on a renamed metric would never be raised.
#[test]
fn the_metrics_of_alerts_and_dashboards_are_those_that_the_gateway_has() {
    let mut wanted = metrics(&fs::read_to_string(chart().join("files/rules.yaml")).expect("the rules"));
    for dashboard in fs::read_dir(chart().join("files/dashboards")).expect("the dashboards") {
        let text = fs::read_to_string(dashboard.expect("a file").path()).expect("a dashboard");
        let dashboard: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert!(dashboard["uid"].is_string() && dashboard["panels"].is_array());
        wanted.extend(metrics(&text));
    }
    let mut sources = String::new();
    let mut folders = vec![root().join("gateway/src/telemetry"), root().join("controller/src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("a file").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                sources += &fs::read_to_string(path).expect("a source file");
            }
        }
    }
    assert!(wanted.len() > 8, "{wanted:?}");
    for metric in wanted {
        let name = metric.trim_start_matches("nginx_ingress_controller_");
        let name = name.trim_end_matches("_bucket").trim_end_matches("_sum").trim_end_matches("_count");
        assert!(sources.contains(&format!("\"{name}\"")), "there is no metric {metric}");
    }
}

#[test]
fn each_alert_is_raised_when_it_should_be() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart/rules_test.yaml");
    let text = fs::read_to_string(&cases).expect("the cases");
    let rules = fs::read_to_string(chart().join("files/rules.yaml")).expect("the rules");
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 5, "{alerts:?}");
    for alert in alerts {
        assert!(text.contains(&format!("alertname: {alert}\n    exp_alerts:")), "no case has {alert} raised");
        assert!(text.contains(&format!("alertname: {alert}}}")), "no case has {alert} not raised");
    }
    promtool(&["test", "rules"], &cases);
    promtool(&["check", "rules"], &chart().join("files/rules.yaml"));
}

fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words
        .filter(|word| word.starts_with("sluice_") || word.starts_with("nginx_ingress_"))
        .map(str::to_owned)
        .collect()
}
