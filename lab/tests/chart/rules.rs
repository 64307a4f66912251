//! Alerts: each is raised under its condition.

use std::fs;
use std::path::Path;

use crate::helm::chart;
use crate::promtool::promtool;

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
