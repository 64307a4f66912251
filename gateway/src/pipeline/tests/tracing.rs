//! Traces: which requests have one, and what they record.

use http::StatusCode;
use http::header::HeaderMap;
use sluice_config::{
    Balance, Collector, CollectorProtocol, GlobalSettings, Policies, RootSampler, RuleTracing,
};

use super::fixture::*;
use crate::pipeline::{Exchange, ExchangeOutcome, Failure, FailureKind, Next, Originator};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn traced(settings: &mut GlobalSettings) {
    settings.trace.enabled = true;
    settings.trace.collector =
        Some(Collector { host: "otel.example".into(), port: 4317, protocol: CollectorProtocol::Grpc });
}

/// The fields that the endpoint of the current attempt gets.
fn sent(exchange: &Exchange, request: &Request) -> HeaderMap {
    let mut head = http::Request::new(());
    *head.headers_mut() = request.headers.parsed().collect();
    exchange.upstream_request(&mut head);
    head.into_parts().0.headers
}

fn finish(exchange: &mut Exchange) {
    exchange.end(ExchangeOutcome { status: Some(StatusCode::OK), ..ExchangeOutcome::default() });
}

#[test]
fn a_request_without_a_trace_keeps_the_fields_of_its_client() {
    let plane = Plane::simple(&[1]);
    let request = Request::get("a.example", "/").with("traceparent", PARENT).with("tracestate", "any");
    let mut exchange = plane.forward(&request);
    exchange.pick().unwrap();
    let head = sent(&exchange, &request);
    assert_eq!(
        (&head["traceparent"], &head["tracestate"]),
        (&PARENT.parse().unwrap(), &"any".parse().unwrap())
    );
    finish(&mut exchange);
    assert_eq!(plane.state.spans.counts().waiting, 0);
}

#[test]
fn a_trace_that_is_not_sampled_has_a_context_and_no_spans() {
    let mut plane = Plane::simple(&[1]);
    plane.tune(|settings| {
        traced(settings);
        settings.trace.sampler.root = RootSampler::AlwaysOff;
    });
    let request = Request::get("a.example", "/");
    let mut exchange = plane.forward(&request);
    exchange.pick().unwrap();
    assert!(sent(&exchange, &request)["traceparent"].as_bytes().ends_with(b"-00"));
    finish(&mut exchange);
    assert_eq!(plane.state.spans.counts().waiting, 0);
}

#[test]
fn each_attempt_has_its_own_span_in_the_same_trace() {
    let mut plane = Plane::simple(&[1, 2]);
    plane.tune(traced);
    let request = Request::get("a.example", "/").with("traceparent", PARENT);
    let mut exchange = plane.forward(&request);
    exchange.pick().unwrap();
    let first = sent(&exchange, &request)["traceparent"].clone();
    let failed = exchange.failed(Failure::before_connecting(FailureKind::Connect, true));
    assert!(matches!(failed, Next::Retry));
    exchange.pick().unwrap();
    let second = sent(&exchange, &request)["traceparent"].clone();
    assert_eq!(first.as_bytes()[..36], PARENT.as_bytes()[..36]);
    assert_eq!(second.as_bytes()[..36], PARENT.as_bytes()[..36]);
    assert!(first != second && first != PARENT && second != PARENT);
    finish(&mut exchange);
    assert_eq!(plane.state.spans.counts().waiting, 3);
    finish(&mut exchange);
    assert_eq!(plane.state.spans.counts().waiting, 3, "an exchange ends once");
}

#[test]
fn an_answer_of_the_gateway_has_a_span_too() {
    let mut plane = Plane::simple(&[]);
    plane.tune(traced);
    for (host, path) in [("a.example", "/"), ("unknown.example", "/"), ("unknown.example", "/healthz")] {
        let (mut exchange, _) = plane.begin(&Request::get(host, path));
        finish(&mut exchange);
    }
    assert_eq!(plane.state.spans.counts().waiting, 2, "health checks have none");
}

#[test]
fn a_rule_overrides_the_global_settings() {
    let rule = |enabled, trusts_incoming| Policies {
        tracing: RuleTracing { enabled, trusts_incoming, span_name: None },
        ..Policies::default()
    };
    for (policies, is_global, expected) in [
        (rule(Some(true), None), false, true),
        (rule(Some(false), None), true, false),
        (rule(None, None), true, true),
        (rule(None, None), false, false),
    ] {
        let mut plane = Plane::with_policies(Balance::RoundRobin, &[1], policies);
        plane.tune(|settings| {
            traced(settings);
            settings.trace.enabled = is_global;
        });
        let request = Request::get("a.example", "/");
        let mut exchange = plane.forward(&request);
        exchange.pick().unwrap();
        assert_eq!(sent(&exchange, &request).contains_key("traceparent"), expected);
    }
    let mut plane = Plane::with_policies(Balance::RoundRobin, &[1], rule(None, Some(false)));
    plane.tune(traced);
    let request = Request::get("a.example", "/").with("traceparent", PARENT).with("tracestate", "a=1");
    let mut exchange = plane.forward(&request);
    exchange.pick().unwrap();
    let head = sent(&exchange, &request);
    assert!(
        head["traceparent"].as_bytes()[..36] != PARENT.as_bytes()[..36] && !head.contains_key("tracestate")
    );
}
