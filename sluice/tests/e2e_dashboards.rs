//! Dashboards of ingress-nginx: each metric and label that their panels need is exposed after some
//! traffic. `docs/dashboards.md` describes them.

use std::collections::BTreeSet;

use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, Reply, TestCertificate, await_until, get,
};

const HOST: &str = "shop.example";

/// Labels that Prometheus adds to each series of a Pod. It renames labels of the page with the same
/// name to `exported_*`, unless the scrape has `honor_labels`.
const TARGET: [&str; 7] = ["container", "endpoint", "instance", "job", "namespace", "pod", "service"];

/// The panels of ingress-nginx's dashboards (deploy/grafana/dashboards), each with its metrics and
/// the labels that it selects or groups by. Names begin with `nginx_ingress_controller_`.
const PANELS: &[(&str, &str)] = &[
    // nginx.json: the variables, then the panels.
    ("$namespace", "config_hash{controller_namespace}"),
    ("$controller_class", "config_hash{namespace,controller_class}"),
    ("$controller", "config_hash{namespace,controller_class,controller_pod}"),
    ("$exported_namespace", "requests{namespace,controller_class,controller_pod,exported_namespace}"),
    ("$ingress", "requests{namespace,controller_class,controller_pod,exported_namespace,ingress}"),
    ("Controller Request Volume", "requests{controller_pod,controller_class,namespace}"),
    (
        "Controller Connections",
        "nginx_process_connections{controller_pod,controller_class,controller_namespace,state}",
    ),
    ("Controller Success Rate", "requests{controller_pod,controller_class,namespace,status}"),
    ("Config Reloads", "success{controller_pod,controller_class,controller_namespace}"),
    ("Last Config Failed", "config_last_reload_successful{controller_pod,controller_namespace}"),
    (
        "Ingress Request Volume",
        "requests{controller_pod,controller_class,controller_namespace,exported_namespace,ingress}",
    ),
    (
        "Ingress Success Rate",
        "requests{controller_pod,controller_class,namespace,exported_namespace,ingress,status}",
    ),
    ("Network I/O pressure", "request_size_sum{controller_pod,controller_class,controller_namespace}"),
    ("Network I/O pressure", "response_size_sum{controller_pod,controller_class,controller_namespace}"),
    (
        "Average Memory Usage",
        "nginx_process_resident_memory_bytes{controller_pod,controller_class,controller_namespace}",
    ),
    (
        "Average CPU Usage",
        "nginx_process_cpu_seconds_total{controller_pod,controller_class,controller_namespace}",
    ),
    (
        "Ingress Percentile Response Times and Transfer Rates",
        "request_duration_seconds_bucket{controller_pod,controller_class,controller_namespace,exported_namespace,ingress,le}",
    ),
    (
        "Ingress Percentile Response Times and Transfer Rates",
        "request_size_sum{controller_pod,controller_class,controller_namespace,exported_namespace,ingress}",
    ),
    (
        "Ingress Percentile Response Times and Transfer Rates",
        "response_size_sum{controller_pod,controller_class,controller_namespace,exported_namespace,ingress}",
    ),
    // It also selects by labels that ingress-nginx does not expose either; docs/dashboards.md.
    ("Ingress Certificate Expiry", "ssl_expire_time_seconds{namespace,host}"),
    // request-handling-performance.json
    ("Request Latency Percentiles", "request_duration_seconds_bucket{ingress,le}"),
    ("Upstream Response Latency Percentiles", "response_duration_seconds_bucket{ingress,le}"),
    ("Request Rate by Method and Path", "request_duration_seconds_count{ingress,method,host,path}"),
    (
        "Median Upstream Response Time by Method and Path",
        "response_duration_seconds_bucket{ingress,method,host,path,le}",
    ),
    (
        "Response Error Rate by Method and Path",
        "request_duration_seconds_count{ingress,method,host,path,status}",
    ),
    ("Upstream Response Time by Method and Path", "response_duration_seconds_sum{ingress,method,host,path}"),
    ("Average Response Size by Method and Path", "response_size_sum{ingress,method,host,path}"),
    ("Average Response Size by Method and Path", "response_size_count{ingress,method,host,path}"),
    ("Average Response Size by Method and Path", "response_size_bucket{ingress,le}"),
];

/// A series as Prometheus stores it.
struct Series {
    name: String,
    labels: BTreeSet<String>,
}

impl Series {
    /// Parses a line of the metrics page; `None` for a comment.
    fn of(line: &str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let (name, rest) = line.split_once(['{', ' '])?;
        let own = match rest.rsplit_once("} ") {
            Some((labels, _)) => labels,
            None => "",
        };
        let own = own.split("\",").filter_map(|pair| pair.split_once("=\"").map(|(label, _)| label));
        let renamed = own.map(|label| match TARGET.contains(&label) {
            true => format!("exported_{label}"),
            false => label.to_owned(),
        });
        let labels = renamed.chain(TARGET.map(str::to_owned)).collect();
        Some(Self { name: name.to_owned(), labels })
    }

    /// Returns whether a panel finds what it needs.
    fn has(&self, needed: &str) -> bool {
        let (name, labels) = needed.trim_end_matches('}').split_once('{').expect("a metric with labels");
        self.name.strip_prefix("nginx_ingress_controller_") == Some(name)
            && labels.split(',').all(|label| self.labels.contains(label))
    }
}

#[test]
fn panels_of_the_references_dashboards_find_their_metrics() {
    let backend = Backend::with("shop", |request| match request.start.starts_with("GET /bad") {
        true => Reply::status(500),
        false => Reply::Echo,
    });
    let certificate = TestCertificate::new(&[HOST]);
    let ingress = Ingress::new("shop").annotation("ssl-redirect", "false").path(HOST, "/", "shop");
    let objects =
        ingress.tls(&[HOST], "tls").text() + &service_with("shop", &[&backend]) + &certificate.secret("tls");
    let gateway = Gateway::with(&Folder::with(objects), &["--enable-metrics"]);
    get(gateway.http, HOST, "/good");
    get(gateway.http, HOST, "/bad");
    assert_eq!(Connection::tls(gateway.https, HOST).request("GET", HOST, "/tls", &[], "").status, 200);
    let lacking = || {
        let page = gateway.metrics();
        let series: Vec<Series> = page.lines().filter_map(Series::of).collect();
        let lacks = |(_, needed): &&(&str, &str)| !series.iter().any(|series| series.has(needed));
        PANELS.iter().filter(lacks).collect::<Vec<_>>()
    };
    // Workers add their samples within a moment.
    await_until("the metrics of all panels", || {
        let lacking = lacking();
        if !lacking.is_empty() {
            println!("{lacking:?}");
        }
        lacking.is_empty()
    });
}
