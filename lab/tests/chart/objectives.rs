//! Alerts for service level objectives: off by default, with the configured objectives, and raised
//! while an error budget is used up too fast.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::helm::{object, objects, template_values};
use crate::promtool::promtool;

/// Returns the groups of the PrometheusRule with these values of `slo`.
fn groups(slo: &str) -> Vec<Value> {
    let values = format!(
        "controller:\n  image: {{repository: registry.example/sluice}}\n  metrics:\n    enabled: true\n    \
         prometheusRule: {{enabled: true, slo: {slo}}}\n"
    );
    let all = objects(&template_values(&values).expect("the chart renders"));
    let rule = object(&all, "PrometheusRule", "gateway-sluice-controller");
    rule["spec"]["groups"].as_array().expect("groups").clone()
}

/// Returns the rules for objectives, each as text with its name.
fn rules(slo: &str) -> Vec<(String, String)> {
    let groups = groups(slo);
    let group = groups.iter().find(|group| group["name"] == "sluice-slo").expect("the group");
    let name = |rule: &Value| rule["alert"].as_str().or(rule["record"].as_str()).expect("a name").to_owned();
    let rules = group["rules"].as_array().expect("rules").iter();
    rules.map(|rule| (name(rule), rule.to_string())).collect()
}

#[test]
fn objectives_have_no_alerts_by_default() {
    let groups = groups("{}");
    assert!(groups.iter().all(|group| group["name"] != "sluice-slo"), "{groups:?}");
    assert!(!groups.is_empty(), "the other alerts are kept");
}

#[test]
fn alerts_have_the_objectives_of_the_values() {
    let rules = rules("{enabled: true, availability: 99.5, latency: 95, latencySeconds: \"2.5\"}");
    let has = |name: &str, text: &str| {
        let rule = rules.iter().find(|(own, _)| own == name).unwrap_or_else(|| panic!("{name}: {rules:?}"));
        assert!(rule.1.contains(text), "{text}: {rule:?}");
    };
    has("SluiceAvailabilityBudgetBurnsFast", "> 14.4 * (1 - 99.5 / 100)");
    has("SluiceAvailabilityBudgetBurnsSlowly", "> 1 * (1 - 99.5 / 100)");
    has("SluiceLatencyBudgetBurnsFast", "> 6 * (1 - 95 / 100)");
    has("SluiceLatencyBudgetBurnsSlowly", "take longer than 2.5 s");
    // Prometheus appends .0 to an integer.
    has("sluice:slo_slow_requests:rate5m", r#"le=~\"2\\\\.5(\\\\.0)?\""#);
    assert!(rules.iter().all(|(_, text)| text.contains(r#"controller_namespace=\"edge\""#)));
}

#[test]
fn an_objective_of_zero_has_no_alert() {
    let names = |slo: &str| rules(slo).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ");
    let latency = names("{enabled: true, availability: 0}");
    assert!(latency.contains("Latency") && !latency.contains("Availability"), "{latency}");
    let availability = names("{enabled: true, latency: 0}");
    assert!(availability.contains("Availability") && !availability.contains("Latency"), "{availability}");
}

#[test]
fn objectives_of_the_gateway_name_no_ingress() {
    let rules = rules("{enabled: true, per: gateway}");
    assert!(rules.iter().all(|(_, text)| !text.contains("ingress)")), "{rules:?}");
    let alert = rules.iter().find(|(name, _)| name == "SluiceLatencyBudgetBurnsFast").expect("the alert");
    assert!(alert.1.contains("of the gateway take longer"), "{alert:?}");
}

#[test]
fn values_that_are_no_objective_are_refused() {
    for slo in ["{availability: 100}", "{latency: 101}", "{latency: many}", "{per: host}"] {
        let values = format!("controller: {{metrics: {{prometheusRule: {{slo: {slo}}}}}}}");
        assert!(template_values(&values).is_err(), "{slo}");
    }
}

/// The cases are in `objectives_test.yaml`, for the default objectives.
#[test]
fn budgets_that_burn_raise_their_alerts() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart/objectives_test.yaml");
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    for per in ["gateway", "ingress"] {
        let groups = serde_json::json!({"groups": groups(&format!("{{enabled: true, per: {per}}}"))});
        fs::write(file("rules.yaml"), groups.to_string()).expect("the rules");
        promtool(&["check", "rules"], &file("rules.yaml"));
    }
    fs::copy(cases, file("cases.yaml")).expect("the cases");
    promtool(&["test", "rules"], &file("cases.yaml"));
}
