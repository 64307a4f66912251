//! Heads for the endpoint and for the client.

use std::sync::Arc;

use http::header::{HOST, HeaderMap, HeaderValue};
use sluice_config::{Hsts, ServerField};

use super::fixture::*;
use crate::message::fields::FieldsMut;
use crate::pipeline::Exchange;
use crate::pipeline::Originator;
use crate::state::snapshot::PublishedSnapshot;

fn sent(plane: &Plane, request: &Request) -> HeaderMap {
    let mut exchange = plane.forward(request);
    exchange.pick().unwrap();
    request.upstream_fields(&exchange)
}

fn relayed(exchange: &mut Exchange, status: u16, fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut head = http::Response::builder().status(status).body(()).unwrap();
    for (name, value) in fields {
        head.headers_mut().append(*name, HeaderValue::from_static(value));
    }
    exchange.response(&mut head);
    head.into_parts().0.headers
}

#[test]
fn the_endpoint_receives_forwarding_fields() {
    let plane = Plane::simple(&[1]);
    let request = Request::get("a.example:8080", "/")
        .with("connection", "close, x-forwarded-for, x-real-ip, x-own")
        .with("x-forwarded-for", "203.0.113.1")
        .with("x-own", "1")
        .with("cookie", "a=b");
    let head = sent(&plane, &request);
    assert_eq!(head["x-real-ip"], "192.0.2.7", "removed by naming it in Connection");
    assert_eq!(head["x-forwarded-for"], "192.0.2.7");
    assert_eq!(head["host"], "a.example:8080");
    assert_eq!(head["x-forwarded-port"], "80");
    assert_eq!(head["cookie"], "a=b");
    assert_eq!(head["x-request-id"].len(), 32);
    for gone in ["connection", "x-own", "upgrade"] {
        assert!(!head.contains_key(gone), "{gone}");
    }
}

#[test]
fn the_authority_is_the_host_that_the_endpoint_sees() {
    let plane = Plane::simple(&[1]);
    let mut request = Request::get("a.example", "/");
    request.headers.set(&HOST, &HeaderValue::from_static("other.example"));
    assert_eq!(sent(&plane, &request)["host"], "a.example");
}

#[test]
fn every_try_sends_the_same() {
    let plane = Plane::simple(&[1, 2]);
    let request = Request::get("a.example", "/").with("x-forwarded-for", "203.0.113.1");
    let mut exchange = plane.forward(&request);
    let mut heads = Vec::new();
    for _ in 0..2 {
        exchange.pick().unwrap();
        heads.push(request.upstream_fields(&exchange));
        exchange.failed(failure(crate::pipeline::FailureKind::Connect));
    }
    assert_eq!(heads[0], heads[1]);
}

#[test]
fn no_client_can_have_the_count_of_gateways_removed() {
    let plane = Plane::simple(&[1]);
    let request = Request::get("a.example", "/");
    assert_eq!(sent(&plane, &request)["x-sluice-hops"], "1");
    let named = request.with("connection", "x-sluice-hops").with("x-sluice-hops", "15");
    assert_eq!(sent(&plane, &named)["x-sluice-hops"], "16");
    let often = named.with("x-sluice-hops", "0");
    assert_eq!(sent(&plane, &often).get_all("x-sluice-hops").iter().collect::<Vec<_>>(), ["16"]);
}

#[test]
fn a_websocket_keeps_its_upgrade() {
    let plane = Plane::simple(&[1]);
    let request = Request::get("a.example", "/").with("connection", "Upgrade").with("upgrade", "websocket");
    let head = sent(&plane, &request);
    assert_eq!(
        (&head["connection"], &head["upgrade"]),
        (&"upgrade".parse().unwrap(), &"websocket".parse().unwrap())
    );
}

#[test]
fn answers_always_name_a_server_and_lose_connection_fields() {
    let plane = Plane::simple(&[1]);
    let request = Request::get("a.example", "/");
    let head = relayed(&mut plane.forward(&request), 200, &[("connection", "x-hop, close"), ("x-hop", "1")]);
    assert_eq!(head["server"], "sluice");
    assert_eq!(head.len(), 1, "{head:?}");
    let head = relayed(&mut plane.forward(&request), 200, &[("server", "apache")]);
    assert_eq!(head["server"], "sluice", "the banner of the endpoint is hidden");
    let switched = [("connection", "Upgrade"), ("upgrade", "websocket")];
    let head = relayed(&mut plane.forward(&request), 101, &switched);
    assert_eq!(head["upgrade"], "websocket");
}

#[test]
fn the_operator_decides_whose_server_field_is_seen() {
    let mut plane = Plane::simple(&[1]);
    for (of_endpoints, own, expected) in [
        (true, true, [Some("apache"), Some("sluice"), Some("sluice")]),
        (true, false, [Some("apache"), None, None]),
        (false, true, [Some("sluice"); 3]),
        (false, false, [None; 3]),
    ] {
        plane.tune(|settings| settings.server_field = ServerField { of_endpoints, own });
        let request = Request::get("a.example", "/");
        let named = relayed(&mut plane.forward(&request), 200, &[("server", "apache")]);
        let unnamed = relayed(&mut plane.forward(&request), 200, &[]);
        let answer = plane.answer(&Request::get("nobody.example", "/"));
        let seen = [&named, &unnamed].map(|head| head.get("server").map(|value| value.to_str().unwrap()));
        assert_eq!([seen[0], seen[1], field(&answer, "server")], expected, "{of_endpoints} {own}");
    }
}

#[test]
fn https_answers_carry_our_hsts() {
    let mut plane = Plane::simple(&[1]);
    let upstream = [("strict-transport-security", "max-age=1")];
    let https = Request::get("a.example", "/").https();
    let head = relayed(&mut plane.forward(&https), 200, &upstream);
    assert_eq!(head["strict-transport-security"], "max-age=31536000; includeSubDomains");
    assert_eq!(head.get_all("strict-transport-security").iter().count(), 1);
    let plain = relayed(&mut plane.forward(&Request::get("a.example", "/")), 200, &upstream);
    assert_eq!(plain["strict-transport-security"], "max-age=1");
    let unknown = Request::get("b.example", "/").https();
    assert!(field(&plane.answer(&unknown), "strict-transport-security").is_some(), "own answers too");
    plane.tune(|settings| {
        settings.hsts = Some(Hsts { max_age: 7, include_subdomains: false, preload: true });
    });
    assert_eq!(field(&plane.answer(&unknown), "strict-transport-security"), Some("max-age=7; preload"));
    plane.tune(|settings| settings.hsts = None);
    assert!(field(&plane.answer(&unknown), "strict-transport-security").is_none());
}

#[test]
fn exchanges_let_the_state_go_when_they_end() {
    let plane = Plane::simple(&[1]);
    relayed(&mut plane.forward(&Request::get("a.example", "/")), 200, &[]);
    let other = Plane::simple(&[1]);
    PublishedSnapshot::take(&other.state);
    assert_eq!(Arc::strong_count(&plane.state), 1);
}
