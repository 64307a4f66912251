//! Dashboards: one of them is generated from the table here, and the queries of all, and of all
//! alerts, name only metrics and labels of `docs/metrics.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};

use crate::generated::compare;
use crate::helm::{chart, root};
use crate::promtool::promtool;

/// A panel: a title, the unit of its values in Grafana, and its queries, each with the legend of
/// its lines.
struct Panel(&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// The panels of the dashboard about the gateway itself. `requests.json` has those about requests.
const GATEWAY: &[Panel] = &[
    Panel(
        "Changes of the configuration",
        "short",
        &[
            (
                r#"sum(increase(nginx_ingress_controller_success{controller_pod=~"$pod"}[$__rate_interval]))"#,
                "applied",
            ),
            (
                r#"sum(increase(nginx_ingress_controller_errors{controller_pod=~"$pod"}[$__rate_interval]))"#,
                "with refused parts",
            ),
        ],
    ),
    Panel(
        "Time to apply a change (99 %)",
        "s",
        &[(
            r#"histogram_quantile(0.99, sum by (le) (rate(sluice_apply_duration_seconds_bucket{pod=~"$pod"}[$__rate_interval])))"#,
            "99 %",
        )],
    ),
    Panel(
        "Connections of clients",
        "short",
        &[
            (
                r#"sum(rate(sluice_connections_accepted_total{pod=~"$pod"}[$__rate_interval]))"#,
                "accepted per second",
            ),
            (
                r#"sum(rate(sluice_connections_refused_total{pod=~"$pod"}[$__rate_interval]))"#,
                "refused per second",
            ),
            (
                r#"sum(rate(sluice_connections_reclaimed_total{pod=~"$pod"}[$__rate_interval]))"#,
                "reclaimed per second",
            ),
            (r#"sum(sluice_connections_open{pod=~"$pod"})"#, "open"),
        ],
    ),
    Panel(
        "Connections without a request",
        "short",
        &[
            (
                r#"sum(rate(sluice_tls_handshake_failures_total{pod=~"$pod"}[$__rate_interval]))"#,
                "TLS handshake failed",
            ),
            (
                r#"sum by (reason) (rate(sluice_proxy_protocol_refused_total{pod=~"$pod"}[$__rate_interval]))"#,
                "PROXY protocol: {{reason}}",
            ),
        ],
    ),
    Panel(
        "Memory for bodies and the cache",
        "bytes",
        &[
            (r#"max by (pod) (sluice_body_memory_bytes{pod=~"$pod"})"#, "{{pod}}: bodies"),
            (r#"max by (pod) (sluice_cache_bytes{pod=~"$pod"})"#, "{{pod}}: cache"),
            (r#"max(sluice_body_memory_limit_bytes{pod=~"$pod"})"#, "body-memory-budget"),
        ],
    ),
    Panel(
        "Cache by outcome",
        "reqps",
        &[(
            r#"sum by (status) (rate(sluice_cache_requests_total{pod=~"$pod"}[$__rate_interval]))"#,
            "{{status}}",
        )],
    ),
    Panel(
        "Cache in files",
        "bytes",
        &[
            (r#"max by (pod) (sluice_cache_file_bytes{pod=~"$pod"})"#, "{{pod}}"),
            (r#"max(sluice_cache_file_limit_bytes{pod=~"$pod"})"#, "cache-file-size"),
        ],
    ),
    Panel(
        "Cache in files: errors",
        "reqps",
        &[(
            r#"sum by (error) (rate(sluice_cache_file_errors_total{pod=~"$pod"}[$__rate_interval]))"#,
            "{{error}}",
        )],
    ),
    Panel(
        "Health checks by outcome",
        "short",
        &[(
            r#"sum by (outcome) (rate(sluice_health_checks_total{pod=~"$pod"}[$__rate_interval]))"#,
            "{{outcome}}",
        )],
    ),
    Panel(
        "Endpoints that fail their health check",
        "short",
        &[(
            r#"max by (exported_namespace, exported_service) (count by (pod, exported_namespace, exported_service) (sluice_endpoint_healthy{pod=~"$pod"} == 0))"#,
            "{{exported_namespace}}/{{exported_service}}",
        )],
    ),
    Panel(
        "Open streams",
        "short",
        &[(
            r#"sum by (protocol, exported_namespace, exported_service) (sluice_streams_open{pod=~"$pod"})"#,
            "{{protocol}} {{exported_namespace}}/{{exported_service}}",
        )],
    ),
    Panel(
        "Web application firewall by outcome",
        "reqps",
        &[(
            r#"sum by (outcome) (rate(sluice_waf_requests_total{pod=~"$pod"}[$__rate_interval]))"#,
            "{{outcome}}",
        )],
    ),
    Panel(
        "Traces and log records",
        "short",
        &[
            (r#"sum(rate(sluice_otel_spans_exported_total{pod=~"$pod"}[$__rate_interval]))"#, "spans sent"),
            (
                r#"sum by (reason) (rate(sluice_otel_spans_dropped_total{pod=~"$pod"}[$__rate_interval]))"#,
                "spans dropped: {{reason}}",
            ),
            (
                r#"sum by (reason) (rate(sluice_otel_log_records_dropped_total{pod=~"$pod"}[$__rate_interval]))"#,
                "log records dropped: {{reason}}",
            ),
            (
                r#"sum(rate(sluice_access_log_dropped_lines_total{pod=~"$pod"}[$__rate_interval]))"#,
                "lines of the access log dropped",
            ),
        ],
    ),
    Panel(
        "Time until certificates expire",
        "s",
        &[(
            r#"bottomk(10, min by (exported_namespace, secret_name, host) (nginx_ingress_controller_ssl_expire_time_seconds{controller_pod=~"$pod"}) - time())"#,
            "{{exported_namespace}}/{{secret_name}} {{host}}",
        )],
    ),
    Panel(
        "CPU",
        "short",
        &[(
            r#"sum by (controller_pod) (rate(nginx_ingress_controller_nginx_process_cpu_seconds_total{controller_pod=~"$pod"}[$__rate_interval]))"#,
            "{{controller_pod}}",
        )],
    ),
    Panel(
        "Memory",
        "bytes",
        &[(
            r#"max by (controller_pod) (nginx_ingress_controller_nginx_process_resident_memory_bytes{controller_pod=~"$pod"})"#,
            "{{controller_pod}}",
        )],
    ),
];

#[test]
fn the_dashboard_of_the_gateway_is_that_of_the_table() {
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    let panel = |(index, Panel(title, unit, queries)): (usize, &Panel)| {
        let target = |(at, (query, legend)): (usize, &(&str, &str))| {
            let letter = char::from(b'A' + u8::try_from(at).expect("a few queries"));
            json!({"refId": letter.to_string(), "expr": query, "legendFormat": legend})
        };
        json!({
            "id": index + 1,
            "title": title,
            "type": "timeseries",
            "datasource": source,
            "gridPos": {"x": index % 2 * 12, "y": index / 2 * 8, "w": 12, "h": 8},
            "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
            "targets": queries.iter().enumerate().map(target).collect::<Vec<_>>(),
        })
    };
    let dashboard = json!({
        "uid": "sluice-gateway",
        "title": "Sluice: gateway",
        "tags": ["sluice"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus"},
            {
                "name": "pod", "type": "query", "datasource": source,
                "query": "label_values(sluice_generation, pod)", "refresh": 2,
                "multi": true, "includeAll": true, "allValue": ".*",
            },
        ]},
        "panels": GATEWAY.iter().enumerate().map(panel).collect::<Vec<_>>(),
    });
    compare(&chart().join("files/dashboards/gateway.json"), &format!("{dashboard:#}\n"));
}

/// Labels that a scrape adds. It renames labels of the page with the same name to `exported_*`.
const TARGET: [&str; 4] = ["instance", "namespace", "pod", "service"];

/// A query of a dashboard or alert, with its origin.
struct Query {
    origin: String,
    text: String,
}

/// Returns the queries of all dashboards.
fn dashboards() -> Vec<Query> {
    let mut all = Vec::new();
    let folder = chart().join("files/dashboards");
    for entry in fs::read_dir(folder).expect("the dashboards") {
        let path = entry.expect("a file").path();
        let text = fs::read_to_string(&path).expect("a dashboard");
        let dashboard: Value = serde_json::from_str(&text).expect("JSON");
        for panel in dashboard["panels"].as_array().expect("panels") {
            for target in panel["targets"].as_array().expect("targets") {
                let origin = format!("{}: {}", path.display(), panel["title"]);
                all.push(Query { origin, text: target["expr"].as_str().expect("a query").to_owned() });
            }
        }
    }
    all
}

/// Returns the queries of all alerts.
fn alerts() -> Vec<Query> {
    let rules = fs::read_to_string(chart().join("files/rules.yaml")).expect("the rules");
    let rules: Value = serde_yaml::from_str(&rules).expect("YAML");
    let query = |rule: &Value| {
        let text = rule["expr"].as_str().expect("a query").to_owned();
        Query { origin: rule["alert"].to_string(), text }
    };
    rules["groups"][0]["rules"].as_array().expect("rules").iter().map(query).collect()
}

/// Returns the series of `docs/metrics.md`, each with its labels after a scrape.
fn reference() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(root().join("docs/metrics.md")).expect("docs/metrics.md");
    let mut all = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`');
        let mut labels: BTreeSet<String> =
            cells[3].split('`').skip(1).step_by(2).map(str::to_owned).collect();
        if name.starts_with("nginx_ingress_controller_") {
            labels.extend(["controller_class", "controller_namespace", "controller_pod"].map(str::to_owned));
        }
        let renamed = |label: String| match TARGET.contains(&&*label) {
            true => format!("exported_{label}"),
            false => label,
        };
        let labels: BTreeSet<String> =
            labels.into_iter().map(renamed).chain(TARGET.map(str::to_owned)).collect();
        if cells[2] == "histogram" {
            for part in ["sum", "count"] {
                all.insert(format!("{name}_{part}"), labels.clone());
            }
            let with_bound = labels.into_iter().chain(["le".to_owned()]).collect();
            all.insert(format!("{name}_bucket"), with_bound);
        } else {
            all.insert(name.to_owned(), labels);
        }
    }
    all
}

/// Returns the metrics of a query, each with the labels that it is selected by, and the labels that
/// the query groups by.
fn parsed(query: &str) -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut metrics, mut grouped) = (Vec::new(), Vec::new());
    let mut rest = query;
    while let Some(begin) = rest.find(is_of_name) {
        let length = rest[begin..].find(|c| !is_of_name(c)).unwrap_or(rest.len() - begin);
        let word = &rest[begin..begin + length];
        rest = &rest[begin + length..];
        if word == "by" {
            let (labels, after) = rest.trim_start_matches([' ', '(']).split_once(')').expect("a list");
            grouped.extend(labels.split(',').map(|label| label.trim().to_owned()));
            rest = after;
        } else if ["nginx_ingress_controller_", "sluice_", "process_"].iter().any(|it| word.starts_with(it)) {
            let mut labels = Vec::new();
            if let Some(selectors) = rest.strip_prefix('{') {
                // No value of a label has a brace.
                let (selectors, after) = selectors.split_once('}').expect("selectors");
                // Labels and values alternate.
                let names = selectors.split('"').step_by(2);
                let names = names.map(|name| name.trim_matches([',', ' ', '=', '~', '!']));
                labels.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
                rest = after;
            }
            metrics.push((word.to_owned(), labels));
        }
    }
    (metrics, grouped)
}

#[test]
fn a_query_is_parsed_into_its_metrics_and_labels() {
    let (metrics, grouped) = parsed(
        r#"sum by (le, ingress) (rate(sluice_a_total{status=~"5..,x",pod!="$pod"}[5m])) / on () process_b"#,
    );
    let labels = vec!["status".to_owned(), "pod".to_owned()];
    assert_eq!(metrics, [("sluice_a_total".to_owned(), labels), ("process_b".to_owned(), Vec::new())]);
    assert_eq!(grouped, ["le", "ingress"]);
}

/// A query for a renamed metric or label would have no data, and an alert would never be raised.
#[test]
fn queries_name_only_metrics_and_labels_of_the_reference() {
    let reference = reference();
    let (dashboards, alerts) = (dashboards(), alerts());
    assert!(dashboards.len() > 20 && alerts.len() > 5 && reference.len() > 80);
    for Query { origin, text } in dashboards.iter().chain(&alerts) {
        let (metrics, grouped) = parsed(text);
        assert!(!metrics.is_empty(), "{origin}: {text}");
        let mut known = BTreeSet::new();
        for (metric, labels) in metrics {
            let all =
                reference.get(&metric).unwrap_or_else(|| panic!("{origin}: there is no metric {metric}"));
            for label in labels {
                assert!(all.contains(&label), "{origin}: {metric} has no label {label}");
            }
            known.extend(all);
        }
        for label in &grouped {
            assert!(known.contains(label), "{origin}: no metric has the label {label}");
        }
    }
}

/// Prometheus evaluates every query where each metric of the reference has a series.
#[test]
fn queries_of_dashboards_have_values() {
    let series = |(name, labels): (&String, &BTreeSet<String>)| {
        // Endpoints are counted that fail their health check.
        let values = if name == "sluice_endpoint_healthy" { "0x10" } else { "0+60x10" };
        let bounds: &[&str] = if labels.contains("le") { &["0.5", "+Inf"] } else { &[""] };
        let one = |bound: &&str| {
            let pair = |label: &String| match &**label {
                "le" => format!("le=\"{bound}\""),
                "status" => "status=\"500\"".to_owned(),
                label => format!("{label}=\"any\""),
            };
            let pairs: Vec<String> = labels.iter().map(pair).collect();
            json!({"series": format!("{name}{{{}}}", pairs.join(",")), "values": values})
        };
        bounds.iter().map(one).collect::<Vec<_>>()
    };
    let series: Vec<Value> = reference().iter().flat_map(series).collect();
    let queries = dashboards();
    // An alert for each query that has a value.
    let rule = |(number, query): (usize, &Query)| {
        let text = query.text.replace("$__rate_interval", "5m").replace("$pod", ".*");
        json!({"alert": format!("query{number}"), "expr": format!("count({text}) > 0")})
    };
    let rules: Vec<Value> = queries.iter().enumerate().map(rule).collect();
    let case = |(number, _): (usize, &Query)| json!({"eval_time": "10m", "alertname": format!("query{number}"), "exp_alerts": [{"exp_labels": {}}]});
    let cases: Vec<Value> = queries.iter().enumerate().map(case).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, content: &Value| {
        fs::write(folder.path().join(name), content.to_string()).expect("a file");
    };
    write("rules.yaml", &json!({"groups": [{"name": "queries", "rules": rules}]}));
    write(
        "cases.yaml",
        &json!({
            "rule_files": ["rules.yaml"],
            "evaluation_interval": "1m",
            "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": cases}],
        }),
    );
    promtool(&["test", "rules"], &folder.path().join("cases.yaml"));
}
