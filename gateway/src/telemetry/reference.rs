//! Generates `docs/metrics.md` from the metrics page, with every series present once. One test
//! compares the file (`WRITE_DOCS=1` writes it instead); another compares the page with the names
//! in the sources, so no metric is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{Method, StatusCode};
use sluice_config::{
    Certificate, CertificateId, Code, EndpointSetKey, Generation, ObjectRef, PrivateKey, Problem, ServiceRef,
    Severity,
};

use super::orphans::Orphan;
use super::*;
use crate::registry::CheckedEndpoint;

const HEAD: &str = "# Metrics

This page lists the metrics of `:10254/metrics` and is generated from that page. Names, labels and buckets of
`nginx_ingress_controller_*` are those of ingress-nginx, so its dashboards and alerts keep working. Metrics without a counterpart in
ingress-nginx begin with `sluice_`.

Metrics of `nginx_ingress_controller_*` also have the labels `controller_class`, `controller_namespace` and `controller_pod`. A series
appears with its first event. Details that exist only in nginx (shared dictionaries of Lua, time to render its configuration) have no
metric.

The chart creates a ServiceMonitor, alerts and a dashboard (`controller.metrics` in
[charts/sluice/README.md](../charts/sluice/README.md)); the alerts are in `charts/sluice/files/rules.yaml`.
";

/// The sections of the document with the name prefix of their metrics; requests depend on a flag.
const PARTS: [(&str, &str); 4] = [
    (
        "Requests",
        "These exist with `--enable-metrics` (chart: `controller.metrics.enabled`). `--metrics-per-host=false` omits the \
     label `host`,\n`--report-status-classes` reports `status` as `2xx` etc., and `--exclude-socket-metrics` omits \
     metrics by name.\n\nWith `--bucket-factor=1.1`, the histograms of seconds are native histograms as well: their buckets \
     follow each other closely, so\nquantiles are exact to a few percent without a choice of `--time-buckets`. They \
     need about 7 KiB of memory for each series and\nworker. Of more than `--max-buckets` used buckets, each two are \
     merged. Prometheus gets them with `scrape_native_histograms: true`\n(`scrapeNativeHistograms` of a ServiceMonitor), \
     because it then asks for its protobuf format, which other clients do not get.\n\nIn that format, the buckets of \
     `request_duration_seconds` also have exemplars: the last request with a sampled trace, with `trace_id`\n\
     ([tracing.md](tracing.md)). Prometheus stores them with `--enable-feature=exemplar-storage`. OpenMetrics is not \
     served, because its\ncounters end with `_total`, so those of ingress-nginx would change their names.",
    ),
    ("The controller and its process", "These always exist, with the names of ingress-nginx."),
    ("Sluice's own", "These have no counterpart in ingress-nginx."),
    ("The process", "These have the names that Prometheus' own clients use."),
];

/// A metric of the page.
#[derive(Default)]
struct Metric {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// Returns the metrics of a page with all series. `requests` enables those of requests.
fn page(requests: bool) -> BTreeMap<String, Metric> {
    let telemetry = Telemetry::new(
        TelemetryOptions { enable_metrics: requests, ..TelemetryOptions::default() },
        AccessLog::none(),
    );
    let telemetry = telemetry.unwrap();
    let second = Some(Duration::from_secs(1));
    let target = telemetry.requests().map(|all| all.target(TargetLabels::default()));
    if let Some(target) = &target {
        let sample =
            RequestSample { connect: second, header: second, response: second, ..RequestSample::default() };
        target.record(&Method::GET, 200, &sample);
    }
    telemetry.connection_opened();
    telemetry.connection_refused();
    let service = ServiceRef { namespace: "shop".into(), name: "db".into(), port: "5432".into() };
    let _streams = telemetry.stream_meters("tcp", &service);
    telemetry.request_began();
    telemetry.request_refused(StatusCode::BAD_REQUEST);
    telemetry.proxy_protocol_refused(ProxyProtocolFault::Late);
    telemetry.applied(Generation(1), Duration::ZERO, true, 1);
    let review = ReviewSample {
        namespace: "shop",
        ingress: "web",
        allowed: true,
        bytes: 1,
        tested: 1,
        verdict: Duration::ZERO,
        total: Duration::ZERO,
    };
    telemetry.reviewed(&review);
    telemetry.reviewed(&ReviewSample { allowed: false, ..review });
    telemetry.leads("sluice-leader", true);
    telemetry.nodes_recomputed("host", 1);
    telemetry.skipped_objects([("Deployment.apps", 1)]);
    telemetry.problem_appeared(&Problem {
        object: ObjectRef::new("Ingress", "shop", "web"),
        uid: None,
        field: String::new(),
        severity: Severity::Error,
        code: Code::ServiceNotFound,
        message: String::new(),
        remedy: String::new(),
    });
    telemetry.watch_source(SourceContact::default);
    let certificate = Certificate {
        id: CertificateId::new("shop", "tls"),
        chain: Vec::new(),
        key: PrivateKey::Pkcs8(Vec::new()),
        facts: sluice_config::certificate::CertificateFacts::default(),
    };
    let served = HostCertificate { host: "shop.example", certificate: &certificate };
    let orphans = [Orphan { namespace: "shop", ingress: "web", missing: "no-endpoint" }].into();
    let set = EndpointSetKey { namespace: "shop".into(), service: "web".into(), port: "http".into() };
    let (address, check) = (([10, 0, 0, 1], 80).into(), "tcp".to_owned());
    let endpoint = CheckedEndpoint { set, address, check, is_healthy: true };
    let checked = HealthCheckResults { endpoints: vec![endpoint], passed: 1, failed: 1 };
    let (health, memory) = (HealthCounts::default(), MemoryUse::default());
    let families = telemetry
        .gather(health, &checked, memory, OtelCounts::default(), std::iter::once(served), &orphans)
        .unwrap();
    read(&telemetry.text(&families).unwrap())
}

/// Parses the metrics of a page.
fn read(text: &str) -> BTreeMap<String, Metric> {
    let mut all: BTreeMap<String, Metric> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            all.entry(name.to_owned()).or_default().help = help.to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            all.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if let Some((name, labels)) = line.split_once('{') {
            let name = ["_bucket", "_sum", "_count"]
                .into_iter()
                .find_map(|tail| name.strip_suffix(tail).filter(|name| all.contains_key(*name)))
                .unwrap_or(name);
            let names = labels.split("\",").filter_map(|pair| pair.split_once("=\"")).map(|(name, _)| name);
            let own = names.filter(|name| !name.starts_with("controller_") && *name != "le");
            all.get_mut(name).unwrap().labels.extend(own.map(str::to_owned));
        }
    }
    all
}

fn render() -> String {
    let without = page(false);
    let part = |name: &str| match name {
        _ if !without.contains_key(name) => 0,
        _ if name.starts_with("nginx_") => 1,
        _ if name.starts_with("sluice_") => 2,
        _ => 3,
    };
    let all = page(true);
    let mut text = HEAD.to_owned();
    for (number, (heading, about)) in PARTS.iter().enumerate() {
        write!(
            text,
            "\n## {heading}\n\n{about}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n"
        )
        .unwrap();
        for (name, Metric { kind, help, labels }) in all.iter().filter(|(name, _)| part(name) == number) {
            let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
            writeln!(text, "| `{name}` | {kind} | {labels} | {} |", help.trim_end_matches('.')).unwrap();
        }
    }
    text
}

#[test]
fn the_document_is_that_of_the_page() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let text = render();
    if std::env::var_os("WRITE_DOCS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == text, "docs/metrics.md is out of date; run the tests with WRITE_DOCS=1");
}

/// The document would lack a metric that this test does not produce.
#[test]
fn every_metric_of_the_sources_is_on_the_page() {
    let page = page(true);
    let mut files = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/telemetry")];
    let mut names = BTreeSet::new();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        let dense: String = text.split_whitespace().collect();
        for call in ["opts(\"", "reference(\"", "opts(options,\""] {
            let found = dense.split(call).skip(1).filter_map(|rest| rest.split('"').next());
            names.extend(found.map(|name| format!("nginx_ingress_controller_{name}")));
        }
        let literals = dense.split('"');
        let is_name = |text: &&str| {
            text.starts_with("sluice_") && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        };
        names.extend(literals.filter(is_name).filter(|name| name.len() > "sluice_".len()).map(str::to_owned));
    }
    assert!(names.len() > 30, "{names:?}");
    let missing: Vec<&String> = names.iter().filter(|name| !page.contains_key(*name)).collect();
    assert!(missing.is_empty(), "these metrics are not on the page of the document: {missing:?}");
}
