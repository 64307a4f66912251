//! Which responses are replaced, which backend is queried, and how its response is used.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use sluice_config::{Balance, ErrorBackend, ErrorPages, Policies, Rule, UpstreamProtocol};

use super::fixture::*;
use crate::message::answer::Answer;
use crate::pipeline::Originator;
use crate::pipeline::SubrequestResponse;
use crate::pipeline::{CallFailure, Question, Reply, Subrequest};

fn plane(error_pages: ErrorPages) -> Plane {
    plane_over(UpstreamProtocol::Http, error_pages)
}

fn plane_over(protocol: UpstreamProtocol, error_pages: ErrorPages) -> Plane {
    let mut plane = Plane::new();
    plane.pool_over(protocol, "web", Balance::RoundRobin, &[1]);
    plane.pool("errors", Balance::RoundRobin, &[9]);
    plane.pool("program", Balance::RoundRobin, &[8]);
    plane.tune(|settings| settings.default_backend = Some((pool_key("program"), service("program"))));
    let policies = Policies { error_pages, ..Policies::default() };
    let rule = Rule { policies: Arc::new(policies), ..rule("/", forward("web")) };
    assert_eq!(plane.host(exact("a.example"), false, vec![rule]), []);
    plane
}

fn listed(statuses: &[u16]) -> ErrorPages {
    ErrorPages { statuses: Some(statuses.into()), ..ErrorPages::default() }
}

fn with_backend(statuses: &[u16]) -> ErrorPages {
    let pool = pool_key("errors");
    let backend = ErrorBackend { service: service("errors"), pages: pool.clone(), requests: pool };
    ErrorPages { backend: Some(backend), ..listed(statuses) }
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap()
}

fn call(question: Option<Question>) -> Subrequest {
    match question {
        Some(Question::Call(call)) => *call,
        other => panic!("{other:?}"),
    }
}

fn of<'s>(subrequest: &'s Subrequest, name: &str) -> Option<&'s str> {
    let found = subrequest.fields.iter().find(|(field, _)| field == name);
    found.map(|(_, value)| value.to_str().unwrap())
}

#[test]
fn the_listed_statuses_of_an_endpoint_give_way() {
    let plane = plane(listed(&[404, 503]));
    let request = Request::get("a.example", "/x?y").with("accept", "text/html");
    for (code, replaced) in [(200, false), (404, true), (500, false), (503, true)] {
        let mut exchange = plane.forward(&request);
        exchange.pick().unwrap();
        let answer = exchange.intercept(status(code), &HeaderMap::new());
        assert_eq!(answer.is_some(), replaced, "{code}");
        let Some(answer) = answer else { continue };
        let asked = call(exchange.ask_for_page(&answer, &request.head()));
        assert_eq!((asked.method.as_str(), asked.target.as_str()), ("GET", "/?y"));
        for (name, value) in [
            ("host", "a.example"),
            ("x-code", status(code).as_str()),
            ("x-format", "text/html"),
            ("x-original-uri", "/x?y"),
            ("x-namespace", "shop"),
            ("x-ingress-name", "web"),
            ("x-service-name", "web"),
            ("x-service-port", "80"),
            ("x-forwarded-for", "192.0.2.7"),
        ] {
            assert_eq!(of(&asked, name), Some(value), "{name}");
        }
        assert_eq!(of(&asked, "x-request-id").unwrap().len(), 32);
    }
}

#[test]
fn error_pages_do_not_replace_responses_of_grpc_endpoints() {
    for (protocol, replaced) in [
        (UpstreamProtocol::Grpc, false),
        (UpstreamProtocol::GrpcsUnverified, false),
        (UpstreamProtocol::HttpsUnverified, true),
        (UpstreamProtocol::FastCgi, true),
    ] {
        let plane = plane_over(protocol, listed(&[302, 404]));
        let request = Request::get("a.example", "/");
        for code in [302, 404] {
            let mut exchange = plane.forward(&request);
            exchange.pick().unwrap();
            let answer = exchange.intercept(status(code), &HeaderMap::new());
            assert_eq!(answer.is_some(), replaced, "{protocol:?} {code}");
        }
        let exchange = plane.forward(&request);
        let answer = exchange.answer(status(404));
        let asked = exchange.ask_for_page(&answer, &request.head());
        assert!(asked.is_some(), "{protocol:?}: the gateway's own errors have a page");
    }
}

#[test]
fn a_list_of_an_ingress_replaces_responses_although_the_key_is_off() {
    for (own, own_off, replaced) in [
        (Some(&[404][..]), None, true),
        (Some(&[404]), Some(false), true),
        (Some(&[404]), Some(true), false),
        (None, None, false),
    ] {
        let pages = ErrorPages { statuses: own.map(Into::into), keeps_responses: own_off, backend: None };
        let mut plane = plane(pages);
        plane.tune(|settings| {
            settings.custom_http_errors = [404].into();
            settings.keeps_error_responses = true;
        });
        let mut exchange = plane.forward(&Request::get("a.example", "/"));
        exchange.pick().unwrap();
        let intercepted = exchange.intercept(status(404), &HeaderMap::new()).is_some();
        assert_eq!(intercepted, replaced, "{own:?} {own_off:?}");
    }
}

#[test]
fn the_annotation_is_in_place_of_the_key_and_interception_can_be_off() {
    for (own, global, off, own_off, replaced, worded) in [
        (None, &[404][..], false, None, true, true),
        (Some(&[500][..]), &[404], false, None, false, false),
        (Some(&[404]), &[], false, None, true, true),
        (None, &[404], true, None, false, true),
        (None, &[404], true, Some(false), true, true),
        (Some(&[404]), &[], false, Some(true), false, true),
    ] {
        let pages = ErrorPages { statuses: own.map(Into::into), keeps_responses: own_off, backend: None };
        let mut plane = plane(pages);
        plane.tune(|settings| {
            settings.custom_http_errors = global.into();
            settings.keeps_error_responses = off;
        });
        let request = Request::get("a.example", "/");
        let mut exchange = plane.forward(&request);
        exchange.pick().unwrap();
        let intercepted = exchange.intercept(status(404), &HeaderMap::new()).is_some();
        assert_eq!(intercepted, replaced, "{own:?} {global:?} {off} {own_off:?}");
        let answer = exchange.answer(status(404));
        let asked = exchange.ask_for_page(&answer, &request.head()).is_some();
        assert_eq!(asked, worded, "answers of our own: {own:?} {global:?} {off} {own_off:?}");
    }
}

#[test]
fn a_page_replaces_the_answer_and_a_failure_does_not() {
    let plane = plane(listed(&[401]));
    let request = Request::get("a.example", "/").https();
    let mut exchange = plane.forward(&request);
    exchange.pick().unwrap();
    let mut fields = HeaderMap::new();
    fields.insert("www-authenticate", HeaderValue::from_static("Basic"));
    let answer = exchange.intercept(status(401), &fields).unwrap();
    let mut page = HeaderMap::new();
    page.insert("content-type", HeaderValue::from_static("text/plain"));
    page.insert("content-length", HeaderValue::from_static("4"));
    page.insert("connection", HeaderValue::from_static("x-hop"));
    page.insert("x-hop", HeaderValue::from_static("1"));
    let response = SubrequestResponse {
        status: status(418),
        fields: page,
        body: Bytes::from_static(b"page"),
        whole: true,
    };
    let worded = exchange.with_page(answer.clone(), Reply::Response(Box::new(response.clone())));
    assert_eq!((worded.status.as_u16(), &worded.body[..]), (418, &b"page"[..]));
    assert_eq!(field(&worded, "content-type"), Some("text/plain"));
    assert_eq!(field(&worded, "www-authenticate"), Some("Basic"), "or no client could meet the challenge");
    assert_eq!(field(&worded, "server"), Some("sluice"));
    assert!(field(&worded, "strict-transport-security").is_some());
    for name in ["content-length", "connection", "x-hop"] {
        assert!(field(&worded, name).is_none(), "{name}");
    }
    for reply in [
        Reply::NoResponse(CallFailure::NoEndpoint),
        Reply::Overloaded,
        Reply::Response(Box::new(SubrequestResponse { whole: false, ..response })),
    ] {
        let plain = exchange.with_page(answer.clone(), reply);
        assert_eq!(plain.status.as_u16(), 401);
    }
}

#[test]
fn the_rules_own_error_backend_serves_pages_and_missing_endpoints() {
    let mut plane = plane(with_backend(&[404]));
    let request = Request::get("a.example", "/x");
    let mut exchange = plane.forward(&request);
    assert_eq!(last(&exchange.pick().unwrap()), 1);
    let answer = exchange.intercept(status(404), &HeaderMap::new()).unwrap();
    let asked = call(exchange.ask_for_page(&answer, &request.head()));
    assert_eq!(&*asked.to.pool().unwrap().key().endpoints.service, "errors");
    plane.endpoints("web", &[]);
    let mut exchange = plane.forward(&request);
    assert_eq!(last(&exchange.pick().unwrap()), 9);
    let mut head = http::Request::new(());
    exchange.upstream_request(&mut head);
    assert_eq!(head.headers()["x-code"], "503");
    assert_eq!(head.headers()["x-service-name"], "web", "the Service that was meant");
    assert!(exchange.intercept(status(404), &HeaderMap::new()).is_none(), "it has the last word");
    plane.endpoints("errors", &[]);
    assert_eq!(plane.answer(&request).status, StatusCode::SERVICE_UNAVAILABLE);
}

#[test]
fn without_an_error_backend_the_answer_is_the_plain_page() {
    let mut plane = plane(listed(&[404]));
    plane.tune(|settings| settings.default_backend = None);
    let request = Request::get("a.example", "/");
    let mut exchange = plane.forward(&request);
    exchange.pick().unwrap();
    let answer = exchange.intercept(status(404), &HeaderMap::new()).unwrap();
    assert!(exchange.ask_for_page(&answer, &request.head()).is_none());
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}

#[test]
fn the_text_of_a_return_was_replaced_by_an_error_page() {
    let plane = plane(listed(&[503]));
    let request = Request::get("a.example", "/");
    let exchange = plane.forward(&request);
    let busy = Answer::text(status(503), None, "busy".into());
    assert!(exchange.ask_for_page(&busy, &request.head()).is_none());
    assert!(exchange.ask_for_page(&Answer::page(status(503)), &request.head()).is_some());
}

#[test]
fn a_listed_redirect_is_replaced_if_there_is_a_page() {
    let mut plane = plane(ErrorPages::default());
    plane.tune(|settings| settings.custom_http_errors = [302, 404].into());
    let request = Request::get("a.example", "/");
    let mut exchange = plane.forward(&request);
    exchange.pick().unwrap();
    assert!(exchange.intercept(status(301), &HeaderMap::new()).is_none());
    let answer = exchange.intercept(status(302), &HeaderMap::new()).unwrap();
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY, "without its Location it would be no redirect");
    let asked = call(exchange.ask_for_page(&answer, &request.head()));
    assert_eq!(of(&asked, "x-code"), Some("302"));

    let exchange = plane.forward(&request);
    let own = exchange.answer(status(302));
    assert!(exchange.ask_for_page(&own, &request.head()).is_none(), "a redirect of the gateway");

    plane.tune(|settings| settings.default_backend = None);
    let mut exchange = plane.forward(&request);
    exchange.pick().unwrap();
    assert!(exchange.intercept(status(302), &HeaderMap::new()).is_none());
}

#[test]
fn a_page_for_head_states_its_length() {
    let plane = plane(listed(&[404]));
    let request = Request::get("a.example", "/").method(Method::HEAD);
    let mut exchange = plane.forward(&request);
    exchange.pick().unwrap();
    let answer = exchange.intercept(status(404), &HeaderMap::new()).unwrap();
    for lengths in [&["4"][..], &[]] {
        let fields = lengths.iter().map(|length| (CONTENT_LENGTH, length.parse().unwrap())).collect();
        let response = SubrequestResponse { status: status(404), fields, body: Bytes::new(), whole: true };
        let page = exchange.with_page(answer.clone(), Reply::Response(Box::new(response)));
        assert_eq!(field(&page, "content-length"), lengths.first().copied());
        assert!(!page.has_length(), "it is not that of the empty body");
    }
}
