//! The dashboards of ingress-nginx: a Prometheus that scrapes the gateway answers the query of each
//! panel (deploy/grafana/dashboards; `docs/dashboards.md`).

use sluice_testing::backend::{Backend, Reply};
use sluice_testing::certificate::TestCertificate;
use sluice_testing::client::Connection;
use sluice_testing::folder::Folder;
use sluice_testing::gateway::Gateway;
use sluice_testing::manifest::{Ingress, service_with};
use sluice_testing::wait::await_until;

use crate::prometheus::Prometheus;

const HOST: &str = "shop.example";

/// `#` in a query.
const PREFIX: &str = "nginx_ingress_controller_";
/// `<pod>` in a query.
const OF_POD: &str = r#"controller_pod=~"$controller",controller_class=~"$controller_class",controller_namespace=~"$namespace""#;
/// `<namespace>` in a query.
const IN_NAMESPACE: &str =
    r#"controller_pod=~"$controller",controller_class=~"$controller_class",namespace=~"$namespace""#;
/// `<ingress>` in a query.
const OF_INGRESS: &str = r#"ingress=~"$ingress",exported_namespace=~"$exported_namespace""#;

/// The panels and their queries. Quantiles that a panel shows besides are not repeated.
const QUERIES: &[(&str, &str)] = &[
    // nginx.json
    ("Controller Request Volume", "round(sum(irate(#requests{<namespace>}[2m])), 0.001)"),
    ("Controller Connections", r#"sum(avg_over_time(#nginx_process_connections{<pod>,state="active"}[2m]))"#),
    (
        "Controller Success Rate",
        r#"sum(rate(#requests{<namespace>,status!~"[4-5].*"}[2m])) / sum(rate(#requests{<namespace>}[2m]))"#,
    ),
    ("Config Reloads", "avg(irate(#success{<pod>}[1m])) * 60"),
    ("Ingress Request Volume", "round(sum(irate(#requests{<pod>,<ingress>}[2m])) by (ingress), 0.001)"),
    (
        "Ingress Success Rate",
        r#"sum(rate(#requests{<namespace>,<ingress>,status!~"[4-5].*"}[2m])) by (ingress) / sum(rate(#requests{<namespace>,<ingress>}[2m])) by (ingress)"#,
    ),
    ("Network I/O pressure", "sum (irate (#request_size_sum{<pod>}[2m]))"),
    ("Network I/O pressure", "- sum (irate (#response_size_sum{<pod>}[2m]))"),
    ("Average Memory Usage", "avg(#nginx_process_resident_memory_bytes{<pod>})"),
    ("Average CPU Usage", "avg (rate (#nginx_process_cpu_seconds_total{<pod>}[2m]))"),
    (
        "Ingress Percentile Response Times and Transfer Rates",
        r#"histogram_quantile(0.99, sum(rate(#request_duration_seconds_bucket{ingress!="",<pod>,<ingress>}[2m])) by (le, ingress))"#,
    ),
    (
        "Ingress Percentile Response Times and Transfer Rates",
        r#"sum(irate(#request_size_sum{ingress!="",<pod>,<ingress>}[2m])) by (ingress)"#,
    ),
    (
        "Ingress Percentile Response Times and Transfer Rates",
        r#"sum(irate(#response_size_sum{ingress!="",<pod>,<ingress>}[2m])) by (ingress)"#,
    ),
    (
        "Ingress Percentile Response Times",
        r#"histogram_quantile(0.80, sum(rate(#request_duration_seconds_bucket{ingress!="",<pod>,<ingress>}[2m])) by (le))"#,
    ),
    (
        "Ingress Request Latency Heatmap",
        r#"sum(increase(#request_duration_seconds_bucket{ingress!="",<pod>,<ingress>}[2m])) by (le)"#,
    ),
    (
        "Ingress Certificate Expiry",
        r#"avg(#ssl_expire_time_seconds{kubernetes_pod_name=~"$controller",namespace=~"$namespace",ingress=~"$ingress"}) by (host) - time()"#,
    ),
    // request-handling-performance.json
    (
        "Request Latency Percentiles",
        r#"histogram_quantile(0.5, sum by (le)(rate(#request_duration_seconds_bucket{ingress =~ "$ingress"}[5m])))"#,
    ),
    (
        "Upstream Response Latency Percentiles",
        r#"histogram_quantile(0.95, sum by (le)(rate(#response_duration_seconds_bucket{ingress =~ "$ingress"}[5m])))"#,
    ),
    (
        "Request Rate by Method and Path",
        r#"sum by (method, host, path)(rate(#request_duration_seconds_count{ingress =~ "$ingress"}[5m]))"#,
    ),
    (
        "Median Upstream Response Time by Method and Path",
        r#"histogram_quantile(.5, sum by (le, method, host, path)(rate(#response_duration_seconds_bucket{ingress =~ "$ingress"}[5m])))"#,
    ),
    (
        "Response Error Rate by Method and Path",
        r#"sum by (method, host, path) (rate(#request_duration_seconds_count{ingress =~ "$ingress", status =~ "[4-5].*"}[5m])) / sum by (method, host, path) (rate(#request_duration_seconds_count{ingress =~ "$ingress",}[5m]))"#,
    ),
    (
        "Upstream Response Time by Method and Path",
        r#"sum by (method, host, path) (rate(#response_duration_seconds_sum{ingress =~ "$ingress"}[5m]))"#,
    ),
    (
        "Response Error Rate by Method and Path",
        r#"sum (rate(#request_duration_seconds_count{ingress =~ "$ingress", status =~"[4-5].*",}[5m])) by(method, host, path, status)"#,
    ),
    (
        "Average Response Size by Method and Path",
        r#"sum (rate (#response_size_sum {ingress =~ "$ingress",}[5m])) by (method, host, path) / sum (rate(#response_size_count {ingress =~ "$ingress",}[5m])) by (method, host, path)"#,
    ),
    (
        "Average Response Size by Method and Path",
        r#"sum (rate(#response_size_bucket{ingress =~ "$ingress",}[5m])) by (le)"#,
    ),
];

/// Returns a query with the variables of the dashboard as they are at first: everything.
fn query(text: &str) -> String {
    let parts = [("<pod>", OF_POD), ("<namespace>", IN_NAMESPACE), ("<ingress>", OF_INGRESS), ("#", PREFIX)];
    let text = parts.iter().fold(text.to_owned(), |text, (name, part)| text.replace(name, part));
    let variables = ["$controller_class", "$controller", "$exported_namespace", "$namespace", "$ingress"];
    variables.iter().fold(text, |text, variable| text.replace(variable, ".*"))
}

#[test]
fn a_prometheus_that_scrapes_the_gateway_answers_each_panel() {
    let backend = Backend::with("shop", |request| match request.start.starts_with("GET /bad") {
        true => Reply::status(500),
        false => Reply::Answer(200, Vec::new(), "a body".to_owned()),
    });
    let ingress = Ingress::new("shop").path(HOST, "/", "shop").tls(&[HOST], "tls");
    let objects =
        service_with("shop", &[&backend]) + &ingress.text() + &TestCertificate::new(&[HOST]).secret("tls");
    let gateway = Gateway::with(&Folder::with(objects), &["--enable-metrics"]);
    let Some(prometheus) = Prometheus::scraping(gateway.healthz) else {
        println!("prometheus is missing (make alerts-test builds it): the panels were NOT tested");
        return;
    };
    let mut client = Connection::tls(gateway.https, HOST);
    let mut left: Vec<_> = QUERIES.iter().map(|(panel, text)| (*panel, query(text))).collect();
    // A rate needs requests between two scrapes.
    await_until("a value of each panel", || {
        for target in ["/", "/bad"] {
            client.request("GET", HOST, target, &[], "");
        }
        left.retain(|(_, query)| {
            let values = prometheus.values(query);
            values.is_empty() || values.iter().all(|value| value.is_nan())
        });
        if let [(panel, query), ..] = &*left {
            eprintln!("{} panels without a value, such as {panel}: {query}", left.len());
        }
        left.is_empty()
    });
    let failed = prometheus.values(&query("count(#config_last_reload_successful{<pod>} == 0)"));
    assert!(failed.is_empty(), "Last Config Failed has a value only after a failure");
}
