//! Metrics: the reference's names and labels, and the lifetime of series.

use std::collections::BTreeMap;

use prost::Message;

use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gate, Gateway, Ingress, TestCertificate, await_some, await_until,
    config_map, get, site,
};

const HOST: &str = "shop.example";
const CONFIG: &str = "ingress-nginx/controller";
const REQUESTS: &str = "nginx_ingress_controller_requests";

/// A sample.
#[derive(Debug)]
struct Sample {
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Returns the samples of a metric.
fn samples(gateway: &Gateway, name: &str) -> Vec<Sample> {
    let text = gateway.metrics();
    let lines = text.lines().filter_map(|line| line.strip_prefix(name));
    lines
        .filter_map(|rest| {
            let (labels, value) = match rest.strip_prefix('{') {
                Some(rest) => rest.rsplit_once("} ")?,
                None => ("", rest.strip_prefix(' ')?),
            };
            let pairs = labels.split("\",").filter_map(|pair| pair.split_once("=\""));
            let labels =
                pairs.map(|(key, value)| (key.to_owned(), value.trim_end_matches('"').to_owned())).collect();
            Some(Sample { labels, value: value.parse().ok()? })
        })
        .collect()
}

fn start(backend: &Backend, flags: &[&str]) -> (Folder, Gateway) {
    let folder = Folder::with(site("shop", HOST, &[backend]));
    let mut all = vec!["--enable-metrics"];
    all.extend(flags);
    let gateway = Gateway::with(&folder, &all);
    (folder, gateway)
}

fn requests(gateway: &Gateway) -> Sample {
    await_some("a sample of requests", || samples(gateway, REQUESTS).pop())
}

#[test]
fn requests_have_the_labels_of_the_reference() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend, &[]);
    for _ in 0..3 {
        get(gateway.http, HOST, "/some/path");
    }
    await_until("three requests", || samples(&gateway, REQUESTS).iter().any(|sample| sample.value == 3.0));
    let sample = requests(&gateway);
    let expected = [
        ("canary", ""),
        ("controller_class", "k8s.io/ingress-nginx"),
        ("controller_namespace", "ingress-nginx"),
        ("controller_pod", "sluice-0"),
        ("host", HOST),
        ("ingress", "shop"),
        ("method", "GET"),
        ("namespace", "default"),
        ("path", "/"),
        ("service", "shop"),
        ("status", "200"),
    ];
    let labels: Vec<_> = sample.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(labels, expected);
}

#[test]
fn durations_and_sizes_are_histograms_with_the_buckets_of_the_flags() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) =
        start(&backend, &["--time-buckets=1,2", "--size-buckets=3,4", "--length-buckets", "5,6"]);
    get(gateway.http, HOST, "/");
    requests(&gateway);
    let bounds = |name: &str| -> Vec<String> {
        samples(&gateway, &format!("nginx_ingress_controller_{name}_bucket"))
            .into_iter()
            .filter_map(|mut sample| sample.labels.remove("le"))
            .collect()
    };
    for name in ["request", "connect", "header", "response"] {
        assert_eq!(bounds(&format!("{name}_duration_seconds")), ["1", "2", "+Inf"], "{name}");
    }
    assert_eq!(bounds("bytes_sent"), ["3", "4", "+Inf"]);
    assert_eq!(bounds("request_size"), ["5", "6", "+Inf"]);
    assert_eq!(bounds("response_size"), ["5", "6", "+Inf"]);
}

/// As far as the test reads it, a metric in Prometheus' protobuf format.
#[derive(Clone, PartialEq, prost::Message)]
struct MetricFamily {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<Metric>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Metric {
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Histogram {
    #[prost(uint64, tag = "1")]
    sample_count: u64,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(uint64, tag = "7")]
    zero_count: u64,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    positive_delta: Vec<i64>,
}

/// Returns the request durations as Prometheus gets them when it prefers protobuf.
fn durations(gateway: &Gateway) -> Option<Histogram> {
    let accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
                  text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    let response =
        Connection::plain(gateway.healthz).request("GET", HOST, "/metrics", &[("Accept", accept)], "");
    assert!(response.header("content-type").unwrap().starts_with("application/vnd.google.protobuf"));
    let mut rest = response.body();
    let mut all = std::iter::from_fn(|| {
        (!rest.is_empty()).then(|| MetricFamily::decode_length_delimited(&mut rest).unwrap())
    });
    let family = all.find(|family| family.name == "nginx_ingress_controller_request_duration_seconds")?;
    family.metric.into_iter().next()?.histogram
}

#[test]
fn durations_are_native_histograms_with_a_bucket_factor_in_protobuf_only() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend, &["--bucket-factor=1.5"]);
    for _ in 0..3 {
        get(gateway.http, HOST, "/");
    }
    let histogram = await_some("three requests", || durations(&gateway).filter(|all| all.sample_count == 3));
    assert_eq!(histogram.schema, Some(1));
    let counts = histogram.positive_delta.iter().scan(0, |count, delta| {
        *count += delta;
        Some(*count)
    });
    assert_eq!(counts.sum::<i64>() + i64::try_from(histogram.zero_count).unwrap(), 3);
    assert_eq!(requests(&gateway).value, 3.0, "other clients get text");

    let (_folder, gateway) = start(&backend, &[]);
    get(gateway.http, HOST, "/");
    let histogram = await_some("a request", || durations(&gateway).filter(|all| all.sample_count == 1));
    assert_eq!(histogram.schema, None);
}

#[test]
fn the_path_is_the_rules_and_unknown_methods_share_a_value() {
    let backend = Backend::echo("web");
    let objects = Ingress::new("web").path(HOST, "/app", "web").text() + &service_with("web", &[&backend]);
    let gateway = Gateway::with(&Folder::with(objects), &["--enable-metrics"]);
    let mut connection = Connection::plain(gateway.http);
    for method in ["BREW", "STIR", "GET"] {
        assert_eq!(connection.request(method, HOST, "/app/x/y", &[], "").status, 200);
    }
    await_until("all requests", || {
        samples(&gateway, REQUESTS).iter().map(|sample| sample.value).sum::<f64>() == 3.0
    });
    let all = samples(&gateway, REQUESTS);
    assert!(all.iter().all(|sample| sample.labels["path"] == "/app"), "{all:?}");
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(
        all.iter().all(|sample| !["BREW", "STIR"].contains(&sample.labels["method"].as_str())),
        "{all:?}"
    );
}

#[test]
fn flags_shape_the_labels() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend, &["--report-status-classes", "--metrics-per-host=false"]);
    get(gateway.http, HOST, "/");
    let sample = requests(&gateway);
    assert_eq!(sample.labels["status"], "2xx");
    assert!(sample.labels.get("host").is_none_or(String::is_empty), "{sample:?}");
}

#[test]
fn metrics_can_be_left_out_and_are_off_by_default() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend, &["--exclude-socket-metrics", "request_size,response_size"]);
    get(gateway.http, HOST, "/");
    requests(&gateway);
    let text = gateway.metrics();
    assert!(text.contains("_request_duration_seconds") && !text.contains("_request_size"), "{text}");
    assert!(!text.contains("_response_size"), "{text}");
    let gateway = Gateway::start(&Folder::with(site("shop", HOST, &[&backend])));
    get(gateway.http, HOST, "/");
    gateway.await_access("GET / HTTP/1.1");
    assert!(samples(&gateway, REQUESTS).is_empty());
}

#[test]
fn unknown_hosts_are_counted_only_if_enabled() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend, &[]);
    get(gateway.http, "unknown.example", "/");
    get(gateway.http, HOST, "/");
    requests(&gateway);
    assert!(samples(&gateway, REQUESTS).iter().all(|sample| sample.labels["host"] == HOST));
    let (_folder, gateway) = start(&backend, &["--metrics-per-undefined-host"]);
    get(gateway.http, "unknown.example", "/");
    await_until("the unknown host", || {
        samples(&gateway, REQUESTS).iter().any(|sample| sample.labels["host"] != HOST)
    });
}

#[test]
fn clients_choose_neither_the_number_nor_the_length_of_host_labels() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend, &["--metrics-per-undefined-host"]);
    let mut connection = Connection::plain(gateway.http);
    let long = |byte: &str, length: usize| [byte.repeat(length), "example".to_owned()].join(".");
    for host in [long("a", 300), long("b", 2000), long("c", 5000)] {
        // Refusing them is allowed, too.
        let _ = Connection::plain(gateway.http).try_request("GET", &host, "/", &[], "");
    }
    for number in 0..300 {
        assert_eq!(connection.get(&format!("h{number}.example"), "/").status, 404);
    }
    await_until("all of them", || {
        let samples = samples(&gateway, REQUESTS);
        samples.iter().map(|sample| sample.value).sum::<f64>() >= 300.0
    });
    let samples = samples(&gateway, REQUESTS);
    assert!(samples.len() <= 201, "{} series", samples.len());
    assert!(samples.iter().any(|sample| sample.labels["host"] == "_" && sample.value >= 100.0));
    assert!(samples.iter().all(|sample| sample.labels["host"].len() <= 253));
}

#[test]
fn series_go_with_their_ingress() {
    let backend = Backend::echo("web");
    let ingress = |name: &str| Ingress::new(name).path(&format!("{name}.example"), "/", "web").text();
    let folder = Folder::with(service_with("web", &[&backend]) + &ingress("stays"));
    folder.write("goes.yaml", ingress("goes"));
    let gateway = Gateway::with(&folder, &["--enable-metrics"]);
    let of = |name: &str| {
        let text = gateway.metrics();
        text.lines().filter(|line| line.contains(&format!("ingress=\"{name}\""))).count()
    };
    get(gateway.http, "goes.example", "/");
    get(gateway.http, "stays.example", "/");
    await_until("the series of both", || of("goes") > 0 && of("stays") > 0);
    folder.remove("goes.yaml");
    await_until("the series to go", || of("goes") == 0);
    assert!(of("stays") > 0);
}

#[test]
fn sluice_has_metrics_of_itself() {
    let backend = Backend::echo("shop");
    let certificate = TestCertificate::new(&[HOST]);
    let (folder, gateway) = start(&backend, &[]);
    folder.write("tls.yaml", certificate.secret("tls"));
    get(gateway.http, HOST, "/");
    requests(&gateway);
    let text = gateway.metrics();
    assert!(text.lines().any(|line| line.starts_with("sluice_")), "{text}");
    assert!(text.contains("# TYPE nginx_ingress_controller_requests counter"), "{text}");
    assert!(text.contains("process_resident_memory_bytes"), "{text}");
    let response = gateway.probe("/metrics").unwrap();
    assert!(response.header("content-type").unwrap().starts_with("text/plain"));
}

/// Load balancers send them to addresses, which are hosts that no Ingress names.
#[test]
fn the_gateway_s_own_paths_are_in_no_metric_of_requests() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend, &["--metrics-per-undefined-host"]);
    for path in ["/healthz", "/nginx_status", "/other"] {
        get(gateway.http, "unknown.example", path);
    }
    // A series may be seen before its first request is counted.
    await_until("the request", || requests(&gateway).value == 1.0);
    assert_eq!(&*requests(&gateway).labels["host"], "unknown.example");
    assert_eq!(samples(&gateway, REQUESTS).len(), 1);
}

#[test]
fn an_attempt_that_timed_out_has_a_response_duration() {
    let gate = Gate::default();
    let backend = Backend::gated("slow", &gate);
    let ingress = Ingress::new("slow").path(HOST, "/", "slow").annotation("proxy-read-timeout", "1");
    let folder = Folder::with(ingress.text() + &service_with("slow", &[&backend]));
    let gateway = Gateway::with(&folder, &["--enable-metrics"]);
    assert_eq!(Connection::plain(gateway.http).request("POST", HOST, "/slow", &[], "x").status, 504);
    let count = |name: &str| {
        samples(&gateway, &format!("nginx_ingress_controller_{name}_duration_seconds_count")).pop()
    };
    let response = await_some("the attempt", || count("response"));
    assert_eq!((&*response.labels["status"], response.value), ("504", 1.0));
    assert!(count("header").is_none());
    gate.open();
}

/// nginx sets the variables of the location before it redirects or refuses.
#[test]
fn redirects_preflights_and_closed_rules_name_the_service_of_the_rule() {
    let backend = Backend::echo("web");
    let ingress = |name: &str| Ingress::new(name).path(&format!("{name}.example"), "/", "web");
    let objects = ingress("secure").tls(&["secure.example"], "none").text()
        + &ingress("shared").annotation("enable-cors", "true").text()
        + &ingress("closed").annotation("auth-type", "basic").annotation("auth-secret", "none").text()
        + &service_with("web", &[&backend]);
    let gateway = Gateway::with(&Folder::with(objects), &["--enable-metrics"]);
    let mut connection = Connection::plain(gateway.http);
    for (method, host, status) in
        [("GET", "secure.example", 308), ("OPTIONS", "shared.example", 204), ("GET", "closed.example", 503)]
    {
        let origin = [("Origin", "https://page.example")];
        assert_eq!(connection.request(method, host, "/logged", &origin, "").status, status);
        let line = gateway.await_access(&format!(" {status} "));
        assert!(line.contains("[default-web-80] []"), "{line}");
    }
    let all = || samples(&gateway, REQUESTS);
    await_until("three series", || all().len() == 3);
    assert!(all().iter().all(|sample| sample.labels["service"] == "web"), "{:?}", all());
}

#[test]
fn the_default_certificate_has_an_expiry_for_each_host_that_it_serves() {
    let certificate = TestCertificate::new(&["*.example"]);
    let backend = Backend::echo("web");
    let ingress = |name: &str| Ingress::new(name).path(&format!("{name}.example"), "/", "web");
    let objects = ingress("unnamed").tls(&["unnamed.example"], "").text()
        + &ingress("missing").tls(&["missing.example"], "missing").text()
        + &ingress("plain").text()
        + &certificate.secret("tls")
        + &service_with("web", &[&backend]);
    let gateway =
        Gateway::with(&Folder::with(objects), &["--enable-metrics", "--default-ssl-certificate=default/tls"]);
    let expiries = samples(&gateway, "nginx_ingress_controller_ssl_expire_time_seconds");
    assert!(expiries.iter().all(|sample| sample.labels["secret_name"] == "tls"), "{expiries:?}");
    let mut hosts: Vec<&str> = expiries.iter().map(|sample| &*sample.labels["host"]).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["_", "missing.example", "unnamed.example"]);
}

/// Returns the orphaned Ingresses with what each lacks, in order.
fn orphans(gateway: &Gateway) -> Vec<String> {
    let metrics = gateway.metrics();
    let lines = metrics.lines().filter(|line| line.starts_with("nginx_ingress_controller_orphan_ingress{"));
    let label = |line: &str, name: &str| {
        line.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let mut all: Vec<String> =
        lines.map(|line| format!("{} {}", label(line, "ingress"), label(line, "type"))).collect();
    all.sort();
    all
}

#[test]
fn an_ingress_without_endpoints_is_an_orphan() {
    let backend = Backend::echo("web");
    let objects = Ingress::new("lost").path("lost.example", "/", "missing").text()
        + &Ingress::new("idle").path("idle.example", "/", "idle").text()
        + &Ingress::new("web").path("web.example", "/", "web").text()
        + &service_with("idle", &[])
        + &service_with("web", &[&backend]);
    let folder = Folder::with(objects);
    let gateway = Gateway::start(&folder);
    assert_eq!(orphans(&gateway), ["idle no-endpoint", "lost no-service"]);
    folder.write("missing.yaml", service_with("missing", &[&backend]));
    await_until("the Service", || orphans(&gateway) == ["idle no-endpoint"]);
}

#[test]
fn a_canary_without_endpoints_is_an_orphan() {
    let backend = Backend::echo("web");
    let canary = |name: &str, service: &str| {
        let canary = Ingress::new(name).path("web.example", "/", service);
        canary.annotation("canary", "true").annotation("canary-weight", "5").text()
    };
    let objects = Ingress::new("web").path("web.example", "/", "web").text()
        + &canary("idle", "idle")
        + &canary("lost", "missing")
        + &canary("next", "next")
        + &service_with("idle", &[])
        + &service_with("next", &[&backend])
        + &service_with("web", &[&backend]);
    let folder = Folder::with(objects);
    let gateway = Gateway::start(&folder);
    assert_eq!(orphans(&gateway), ["idle no-endpoint", "lost no-service"]);
    folder.write("missing.yaml", service_with("missing", &[&backend]));
    await_until("the Service", || orphans(&gateway) == ["idle no-endpoint"]);
}

/// As a check of Datadog or the Prometheus exporter of nginx reads it.
#[test]
fn the_status_page_is_read_by_the_clients_that_the_keys_name() {
    let folder = Folder::with("");
    folder.write("config.yaml", config_map(CONFIG, &[("nginx-status-ipv4-whitelist", "192.0.2.0/24")]));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    let status = || get(gateway.http, "127.0.0.1", "/nginx_status");
    assert_eq!(status().status, 403);
    folder.write("config.yaml", config_map(CONFIG, &[("nginx-status-ipv4-whitelist", "127.0.0.0/8")]));
    await_until("the key", || status().status == 200);
    let page = status();
    assert_eq!(page.header("content-type"), Some("text/plain"));
    let page = page.text();
    let totals: Vec<u64> =
        page.lines().nth(2).unwrap().split_whitespace().map(|n| n.parse().unwrap()).collect();
    let [accepted, handled, requests] = totals[..] else { panic!("{page}") };
    assert!(accepted >= 3 && accepted == handled && requests >= 3, "{page}");
    assert!(page.starts_with("Active connections: 1 \n"), "{page}");
    assert!(page.ends_with("Reading: 0 Writing: 1 Waiting: 0 \n"), "{page}");
    assert!(gateway.access_log().is_empty(), "it is not logged");
}
