//! What readers of live requests receive.

use std::sync::Arc;

use http::StatusCode;

use super::fixture::*;
use crate::pipeline::stages::ORDER;
use crate::pipeline::{Exchange, FailureKind, Next, Originator, PipelineStage, Verdict};
use crate::state::snapshot::PublishedSnapshot;
use crate::tap::{CheckResult, RequestFilter, TapReader, TappedRequest};

fn reader(plane: &Plane, query: &str, with_steps: bool) -> TapReader {
    plane.state.taps.open(RequestFilter::read(query).unwrap(), with_steps).unwrap()
}

fn next(reader: &mut TapReader) -> Arc<TappedRequest> {
    reader.requests.try_recv().unwrap()
}

#[test]
fn a_request_that_began_before_its_reader_is_not_followed() {
    let plane = Plane::simple(&[1]);
    let mut exchange = plane.forward(&Request::get("a.example", "/"));
    let mut reader = reader(&plane, "", false);
    assert!(exchange.observed.is_none());
    exchange.end(outcome(200));
    assert!(reader.requests.try_recv().is_err());
}

#[test]
fn the_summary_names_client_rule_endpoint_and_attempts() {
    let plane = Plane::simple(&[1, 2]);
    let mut reader = reader(&plane, "host=a.example", false);
    let mut exchange = plane.forward(&Request::get("a.example", "/x?token=s&page=1"));
    exchange.pick().unwrap();
    assert!(matches!(exchange.failed(failure(FailureKind::Connect)), Next::Retry));
    let address = exchange.pick().unwrap().address;
    exchange.end(outcome(200));
    let request = next(&mut reader);
    assert_eq!((&*request.method, &*request.target), ("GET", "/x?token=(hidden)&page=1"));
    assert_eq!((request.client.to_string().as_str(), request.status), ("192.0.2.7", 200));
    assert_eq!((request.endpoint, request.attempts), (Some(address), 2));
    assert_eq!(request.backend.as_deref(), Some("shop-web-80"));
    let rule = request.rule.as_ref().unwrap();
    assert_eq!((&*rule.host, &*rule.object.name.name), ("a.example", "web"));
    assert!(request.steps.is_none());
}

#[test]
fn steps_are_the_stages_the_sent_head_and_the_attempts() {
    let plane = Plane::simple(&[1]);
    let mut reader = reader(&plane, "", true);
    let request = Request::get("a.example", "/").with("authorization", "Basic x").with("x-own", "1");
    let mut exchange = plane.forward(&request);
    exchange.pick().unwrap();
    let mut head = http::Request::new(());
    *head.headers_mut() = request.headers.parsed().collect();
    exchange.upstream_request(&mut head);
    exchange.end(outcome(200));
    let request = next(&mut reader);
    let steps = request.steps.as_ref().unwrap();
    let last = steps.checks.last().unwrap();
    assert_eq!((ORDER[last.stage], last.result), (PipelineStage::Loop, CheckResult::Passed));
    let sent = steps.sent.as_ref().unwrap();
    let value = |name: &str| sent.fields.0.iter().find(|(field, _)| field == name).map(|(_, value)| &**value);
    assert_eq!((value("x-own"), value("authorization")), (Some("1"), Some("(hidden)")));
    assert_eq!(value("x-forwarded-for"), Some("192.0.2.7"));
    assert_eq!((steps.attempts.len(), steps.bytes_sent), (1, 120));
}

#[test]
fn the_stage_that_answers_is_the_last_one() {
    let plane = Plane::simple(&[1]);
    let mut reader = reader(&plane, "status=508", true);
    let request = Request::get("a.example", "/").with("x-sluice-hops", "16");
    let (mut exchange, verdict) =
        Exchange::begin(PublishedSnapshot::take(&plane.state), &connection(false), &request.head());
    let Verdict::Answer(answer) = verdict else { panic!("{verdict:?}") };
    exchange.log_answer(&answer);
    exchange.end(outcome(508));
    let request = next(&mut reader);
    let steps = request.steps.as_ref().unwrap();
    let last = steps.checks.last().unwrap();
    assert_eq!((ORDER[last.stage], last.result), (PipelineStage::Loop, CheckResult::Answered(508)));
    assert!(steps.sent.is_none() && steps.attempts.is_empty());
    assert!(steps.response.0.iter().any(|(name, _)| name == "server"), "{:?}", steps.response);
}

#[test]
fn a_request_that_cannot_be_read_is_followed_too() {
    let plane = Plane::simple(&[1]);
    let mut reader = reader(&plane, "status=400", false);
    let snapshot = PublishedSnapshot::take(&plane.state);
    let (mut exchange, _) =
        Exchange::refuse(snapshot, &connection(false), b"GET", 3, StatusCode::BAD_REQUEST);
    exchange.end(outcome(400));
    let request = next(&mut reader);
    assert!(request.method.is_empty() && request.rule.is_none() && request.target.is_empty());
}
