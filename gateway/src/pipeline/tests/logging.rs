//! Log lines and samples.

use std::time::{Duration, Instant};

use http::{HeaderMap, Method, StatusCode};
use sluice_config::{
    Action, Backend, Change, Delta, Deny, HostName, HostPattern, LogEscape, LogFilter, Policies, Rule,
    SampledShare, StatusRange, TemplatePiece, Variable,
};

use super::fixture::*;
use crate::pipeline::Originator;
use crate::pipeline::{Exchange, ExchangeOutcome, FailureKind};
use crate::state::snapshot::PublishedSnapshot;
use crate::telemetry::TelemetryOptions;

/// The line with its two times of the request taken out.
fn without_durations(line: &str) -> String {
    let is_duration = |word: &str| {
        let word = word.trim_end_matches(',');
        word.split_once('.').is_some_and(|(seconds, rest)| {
            rest.len() == 3
                && [seconds, rest].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
        })
    };
    let words: Vec<&str> = line.split(' ').map(|word| if is_duration(word) { "D" } else { word }).collect();
    words.join(" ")
}

#[test]
fn a_relayed_request() {
    let plane = Plane::simple(&[1]);
    let request = Request::get("a.example", "/x?y=1")
        .with("user-agent", "test")
        .with("referer", "http://r.example/")
        .with("x-request-id", "id-1");
    let mut exchange = plane.forward(&request);
    let upstream = exchange.pick().unwrap();
    exchange.call.connected(upstream.address, false);
    exchange.upstream_response(StatusCode::OK, &HeaderMap::new(), true);
    exchange.end(outcome(200));
    exchange.end(outcome(500));
    drop(exchange);
    let lines = plane.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(
        without_durations(&lines[0]),
        "192.0.2.7 - - [T] \"GET /x?y=1 HTTP/1.1\" 200 5 \"http://r.example/\" \"test\" 107 D [shop-web-80] [] \
         10.0.0.1:8080 5 D 200 id-1"
    );
}

#[test]
fn a_retried_request_lists_its_tries() {
    let plane = Plane::simple(&[1, 2]);
    let mut exchange = plane.forward(&Request::get("a.example", "/").with("x-request-id", "i"));
    let first = exchange.pick().unwrap();
    exchange.failed(failure(FailureKind::ConnectTimeout));
    let second = exchange.pick().unwrap();
    exchange.upstream_response(StatusCode::CREATED, &HeaderMap::new(), true);
    exchange.end(outcome(201));
    let line = without_durations(&plane.lines()[0]);
    let tail = format!("[] {}, {} 0, 5 D D 504, 201 i", first.address, second.address);
    assert!(line.ends_with(&tail), "{line}");
    assert!(plane.metrics().contains("sluice_upstream_retries_total 1"));
}

#[test]
fn clients_that_go_away_are_499() {
    let plane = Plane::simple(&[1]);
    let mut exchange = plane.forward(&Request::get("a.example", "/").with("x-request-id", "i"));
    exchange.pick().unwrap();
    exchange.failed(failure(FailureKind::Client));
    exchange.end(ExchangeOutcome { aborted: true, ..ExchangeOutcome::default() });
    let line = without_durations(&plane.lines()[0]);
    assert!(line.contains("\" 499 0 ") && line.ends_with("10.0.0.1:8080 0 D - i"), "{line}");
    drop(plane.forward(&Request::get("a.example", "/dropped")));
    assert!(plane.lines()[1].contains("\" 499 0 "));
}

#[test]
fn refused_heads_are_logged_and_counted() {
    let plane = Plane::simple(&[1]);
    for (line, status) in [(&b"GET  / HTTP/1.1"[..], 400), (b"", 408), (b"GET /aaa", 414)] {
        let status = StatusCode::from_u16(status).unwrap();
        let (mut exchange, answer) = Exchange::refuse(
            PublishedSnapshot::take(&plane.state),
            &connection(false),
            line,
            line.len(),
            status,
        );
        assert!(answer.close);
        assert_eq!(answer.status, status);
        exchange.end(ExchangeOutcome { body_sent: 9, status: Some(status), ..ExchangeOutcome::default() });
    }
    let lines: Vec<String> = plane.lines().iter().map(|line| without_durations(line)).collect();
    assert_eq!(
        lines,
        [
            "192.0.2.7 - - [T] \"GET  / HTTP/1.1\" 400 9 \"-\" \"-\" 15 D [] [] - - - - -",
            "192.0.2.7 - - [T] \"\" 408 9 \"-\" \"-\" 0 D [] [] - - - - -",
            "192.0.2.7 - - [T] \"GET /aaa\" 414 9 \"-\" \"-\" 8 D [] [] - - - - -",
        ]
    );
    let metrics = plane.metrics();
    for status in [400, 408, 414] {
        assert!(metrics.contains(&format!("sluice_requests_refused_total{{status=\"{status}\"}} 1\n")));
    }
}

#[test]
fn requests_for_unknown_hosts_are_not_logged_by_default() {
    let mut plane = Plane::simple(&[1]);
    plane.answer(&Request::get("b.example", "/"));
    plane.answer(&Request::get("b.example", "/healthz"));
    assert!(plane.lines().is_empty());
    plane.host(exact("c.example"), false, vec![rule("/c", Action::Answer(404))]);
    plane.answer(&Request::get("c.example", "/c"));
    plane.answer(&Request::get("c.example", "/elsewhere"));
    assert_eq!(plane.lines().len(), 2);
    plane.tune(|settings| settings.access_log.enabled = false);
    plane.answer(&Request::get("c.example", "/c"));
    assert_eq!(plane.lines().len(), 2);
}

fn upstream_names(plane: &Plane, requests: &[(&'static str, &'static str)]) -> Vec<String> {
    let before = plane.lines().len();
    for (host, target) in requests {
        plane.begin(&Request::get(host, target)).0.end(outcome(200));
    }
    let names = |line: &String| line.split(['[', ']']).nth(3).map(str::to_owned);
    plane.lines()[before..].iter().filter_map(names).collect()
}

#[test]
fn the_name_of_the_default_backend_is_known_before_it_is_chosen() {
    let mut plane = Plane::simple(&[1]);
    let to_default = || Action::Forward([weighted(1, Backend::Default)].into());
    let closed = Deny { status: 403, reason: "test".into() };
    let policies = Policies { deny: Some(closed), ..Policies::default() };
    let closed = Rule { policies: policies.into(), ..rule("/closed", to_default()) };
    plane.host(exact("c.example"), false, vec![rule("/", to_default()), closed]);
    let names = upstream_names(&plane, &[("c.example", "/"), ("c.example", "/closed")]);
    assert_eq!(names, ["upstream-default-backend"; 2]);
}

#[test]
fn a_request_without_a_rule_names_the_default_upstream() {
    let mut plane = Plane::simple(&[1]);
    plane.tune(|settings| settings.access_log.default_backend = true);
    let redirect = Action::RedirectToHost(HostName::new("a.example"));
    plane.host(exact("c.example"), false, vec![rule("/c", redirect)]);
    let requests =
        [("c.example", "/elsewhere"), ("unknown.example", "/"), ("c.example", "/c"), ("a.example", "/%")];
    let names = upstream_names(&plane, &requests);
    assert_eq!(names, ["upstream-default-backend", "upstream-default-backend", "", ""]);
}

#[test]
fn uri_keeps_bytes_that_are_not_utf8() {
    let mut plane = Plane::simple(&[1]);
    plane.tune(|settings| {
        let pieces = [TemplatePiece::Text("[]".into()), TemplatePiece::Variable(Variable::Uri)].into();
        settings.access_log.format = sluice_config::LogFormat { pieces, escape: LogEscape::Hex };
    });
    for target in ["/a%ff%C3%A9/./b", "/%EF%BF%BD"] {
        plane.forward(&Request::get("a.example", target)).end(outcome(200));
    }
    assert_eq!(plane.lines(), [r"[T]/a\xFF\xC3\xA9/b", r"[T]/\xEF\xBF\xBD"]);
}

#[test]
fn filters_select_lines_by_status_or_duration() {
    let mut plane = Plane::simple(&[1]);
    plane.host(exact("c.example"), false, vec![rule("/c", Action::Answer(404))]);
    let errors = StatusRange { first: 400, last: 599 };
    plane.tune(|settings| {
        let filter = LogFilter { statuses: [errors].into(), ..LogFilter::default() };
        settings.access_log.filter = Some(filter);
    });
    plane.forward(&Request::get("a.example", "/good")).end(outcome(200));
    let (mut exchange, _) = plane.begin(&Request::get("c.example", "/c"));
    exchange.end(outcome(404));
    drop(plane.forward(&Request::get("a.example", "/left")));
    let (mut refused, _) = Exchange::refuse(
        PublishedSnapshot::take(&plane.state),
        &connection(false),
        b"GET",
        3,
        StatusCode::BAD_REQUEST,
    );
    refused.end(outcome(400));
    let lines = plane.lines();
    let logged = |status: u16| lines.iter().filter(|line| line.contains(&format!("\" {status} "))).count();
    assert_eq!((lines.len(), [404, 499, 400].map(logged)), (3, [1, 1, 1]), "{lines:?}");
    plane.tune(|settings| {
        let filter = LogFilter { min_duration: Some(Duration::from_secs(5)), ..LogFilter::default() };
        settings.access_log.filter = Some(filter);
    });
    for (target, seconds) in [("/quick", 4), ("/slow", 6)] {
        let mut exchange = plane.forward(&Request::get("a.example", target));
        let ended = Some(Instant::now() + Duration::from_secs(seconds));
        exchange.end(ExchangeOutcome { ended, ..outcome(200) });
    }
    let lines = plane.lines();
    assert!(lines.len() == 4 && lines[3].contains("/slow"), "{lines:?}");
}

#[test]
fn a_sample_has_about_its_share_and_all_that_filters_select() {
    let mut plane = Plane::simple(&[1]);
    let errors = StatusRange { first: 500, last: 599 };
    plane.tune(|settings| {
        let sample = SampledShare::of(0.25);
        settings.access_log.filter =
            Some(LogFilter { statuses: [errors].into(), sample, ..LogFilter::default() });
    });
    for _ in 0..2_000 {
        plane.forward(&Request::get("a.example", "/good")).end(outcome(200));
        plane.forward(&Request::get("a.example", "/bad")).end(outcome(500));
    }
    let lines = plane.lines();
    let count = |target: &str| lines.iter().filter(|line| line.contains(target)).count();
    assert_eq!(count("/bad"), 2_000);
    assert!((350..650).contains(&count("/good")), "{}", count("/good"));
}

fn series<'a>(metrics: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!("nginx_ingress_controller_{name}{{");
    metrics.lines().filter(|line| line.starts_with(&start)).collect()
}

#[test]
fn samples_carry_the_labels_of_the_rule() {
    let mut plane = Plane::simple(&[1]);
    let wildcard = HostPattern::OneLabel(HostName::new("w.example"));
    plane.host(wildcard, false, vec![rule("/app", forward("web"))]);
    let mut exchange = plane.forward(&Request::get("x.w.example", "/app/deep").method(Method::POST));
    let upstream = exchange.pick().unwrap();
    exchange.call.connected(upstream.address, false);
    exchange.upstream_response(StatusCode::OK, &HeaderMap::new(), true);
    exchange.end(outcome(200));
    let metrics = plane.metrics();
    let labels = "canary=\"\",controller_class=\"k8s.io/ingress-nginx\",controller_namespace=\"\",\
                  controller_pod=\"\",host=\"*.w.example\",ingress=\"web\",method=\"POST\",\
                  namespace=\"shop\",path=\"/app\",service=\"web\",status=\"200\"";
    assert_eq!(series(&metrics, "requests"), [format!("nginx_ingress_controller_requests{{{labels}}} 1")]);
    for histogram in ["connect", "header", "response", "request"] {
        let name = format!("{histogram}_duration_seconds_count");
        let expected = format!("nginx_ingress_controller_{name}{{{labels}}} 1");
        assert_eq!(series(&metrics, &name), [expected]);
    }
    let expected = format!("nginx_ingress_controller_request_size_sum{{{labels}}} 107");
    assert_eq!(series(&metrics, "request_size_sum"), [expected]);
    let expected = format!("nginx_ingress_controller_response_size_sum{{{labels}}} 120");
    assert_eq!(series(&metrics, "response_size_sum"), [expected]);
    let expected = format!("nginx_ingress_controller_bytes_sent_sum{{{labels}}} 120");
    assert_eq!(series(&metrics, "bytes_sent_sum"), [expected]);
}

#[test]
fn series_live_as_long_as_their_rule() {
    let mut plane = Plane::simple(&[1]);
    plane.host(exact("b.example"), false, vec![rule("/", forward("web")), rule("/old", forward("web"))]);
    let hit = |plane: &Plane, host, target| {
        plane.forward(&Request::get(host, target)).end(outcome(200));
    };
    hit(&plane, "a.example", "/");
    hit(&plane, "b.example", "/");
    // A change of the host keeps the counters of the rules that stay.
    plane.host(exact("b.example"), true, vec![rule("/", forward("web"))]);
    plane.forward(&Request::get("b.example", "/").https()).end(outcome(200));
    let metrics = plane.metrics();
    let requests = series(&metrics, "requests");
    assert!(requests.iter().any(|line| line.contains("b.example") && line.ends_with(" 2")), "{requests:?}");
    // The other host belongs to the same Ingress and stays.
    let hosts = vec![Change::Remove(host_key(exact("b.example")))];
    plane.apply(Delta { hosts, ..Delta::default() });
    // A worker without requests does so by itself.
    PublishedSnapshot::take(&plane.state);
    let metrics = plane.metrics();
    let requests = series(&metrics, "requests");
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(requests[0].contains("a.example") && !metrics.contains("b.example"));
}

#[test]
fn a_change_keeps_the_counter_of_answers_that_no_backend_has_a_part_in() {
    let mut plane = Plane::simple(&[1]);
    for path in ["/", "/other"] {
        plane.host(exact("a.example"), true, vec![rule("/", forward("web")), rule(path, forward("web"))]);
        let (mut exchange, _) = plane.begin(&Request::get("a.example", "/"));
        exchange.end(outcome(308));
    }
    let metrics = plane.metrics();
    let requests = series(&metrics, "requests");
    assert!(requests[0].contains("status=\"308\"") && requests[0].ends_with(" 2"), "{requests:?}");
}

#[test]
fn unknown_hosts_are_recorded_only_if_enabled() {
    let silent = Plane::simple(&[1]);
    let (mut exchange, _) = silent.begin(&Request::get("b.example", "/"));
    exchange.end(outcome(404));
    assert!(series(&silent.metrics(), "requests").is_empty());
    let options =
        TelemetryOptions { enable_metrics: true, per_undefined_host: true, ..TelemetryOptions::default() };
    let plane = Plane::with_options(options);
    let (mut exchange, _) = plane.begin(&Request::get("B.example:80", "/x"));
    exchange.end(outcome(404));
    let metrics = plane.metrics();
    assert!(series(&metrics, "requests")[0].contains("host=\"b.example\""));
}

#[test]
fn answers_of_a_rule_count_for_it() {
    let mut plane = Plane::simple(&[1]);
    plane.host(exact("a.example"), true, vec![rule("/", forward("web"))]);
    let (mut exchange, _) = plane.begin(&Request::get("a.example", "/"));
    exchange.end(outcome(308));
    let metrics = plane.metrics();
    let requests = series(&metrics, "requests");
    assert!(
        requests[0].contains("status=\"308\"") && requests[0].contains("ingress=\"web\""),
        "{requests:?}"
    );
    assert!(series(&metrics, "connect_duration_seconds_count").is_empty());
    assert!(!plane.lines()[0].contains("10.0.0.1"));
    assert!(plane.state.telemetry.access_log.flush(Duration::from_secs(1)));
}
