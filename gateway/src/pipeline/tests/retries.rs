//! Endpoints, attempts and failures.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use sluice_config::{Balance, NextUpstream, Policies, Retry, Timeout, Timeouts};

use super::fixture::*;
use crate::pipeline::Originator;
use crate::pipeline::{Exchange, Failure, FailureKind, Next};

fn with_retry(endpoints: &[u8], retry: Retry) -> Plane {
    Plane::with_policies(Balance::RoundRobin, endpoints, Policies { retry, ..Policies::default() })
}

fn status_of(next: Next) -> StatusCode {
    match next {
        Next::Answer(answer) => answer.status,
        other => panic!("{other:?}"),
    }
}

fn get() -> Request {
    Request::get("a.example", "/")
}

fn fail_at(plane: &Plane, endpoint: u8) {
    loop {
        let mut exchange = plane.forward(&get());
        if last(&exchange.pick().unwrap()) == endpoint {
            exchange.failed(failure(FailureKind::Connect));
            return;
        }
    }
}

#[test]
fn requests_go_to_each_endpoint_in_turn() {
    let plane = Plane::simple(&[1, 2, 3]);
    let mut counts = BTreeMap::new();
    for _ in 0..300 {
        *counts.entry(last(&plane.forward(&get()).pick().unwrap())).or_insert(0) += 1;
    }
    assert_eq!(counts, BTreeMap::from([(1, 100), (2, 100), (3, 100)]));
}

#[test]
fn a_retry_goes_to_an_endpoint_not_yet_tried() {
    let plane = Plane::simple(&[1, 2, 3, 4]);
    for _ in 0..20 {
        let mut exchange = plane.forward(&get());
        let mut seen = BTreeSet::new();
        for _ in 0..2 {
            assert!(seen.insert(last(&exchange.pick().unwrap())));
            assert!(matches!(exchange.failed(failure(FailureKind::Connect)), Next::Retry));
        }
        assert!(seen.insert(last(&exchange.pick().unwrap())));
        assert_eq!(status_of(exchange.failed(failure(FailureKind::Connect))), StatusCode::BAD_GATEWAY);
    }
}

#[test]
fn failures_have_the_status_of_nginx() {
    let own = Retry { tries: Some(1), ..Retry::default() };
    for (kind, status) in [
        (FailureKind::Connect, 502),
        (FailureKind::ConnectTimeout, 504),
        (FailureKind::Broken, 502),
        (FailureKind::ReadTimeout, 504),
        (FailureKind::SendTimeout, 504),
        (FailureKind::InvalidHead, 502),
        (FailureKind::Handshake, 502),
        (FailureKind::HandshakeTimeout, 504),
        (FailureKind::Shortage, 503),
        (FailureKind::ClientTimeout, 408),
        (FailureKind::ClientMalformed, 400),
    ] {
        let mut exchange = with_retry(&[1], own.clone()).forward(&get());
        exchange.pick().unwrap();
        assert_eq!(status_of(exchange.failed(failure(kind))), status, "{kind:?}");
    }
    let mut exchange = with_retry(&[1], own.clone()).forward(&get());
    exchange.pick().unwrap();
    assert!(matches!(exchange.failed(failure(FailureKind::Client)), Next::Abort));
    let mut exchange = with_retry(&[1], own).forward(&get());
    exchange.pick().unwrap();
    let begun = Failure { response_started: true, ..failure(FailureKind::Broken) };
    assert!(matches!(exchange.failed(begun), Next::Abort));
}

#[test]
fn with_all_endpoints_tried_any_is_tried_again() {
    let plane = with_retry(&[1, 2], Retry { tries: Some(5), ..Retry::default() });
    let mut exchange = plane.forward(&get());
    for attempt in 1..=5 {
        exchange.pick().unwrap();
        let next = exchange.failed(failure(FailureKind::Connect));
        assert_eq!(matches!(next, Next::Retry), attempt < 5, "{attempt}");
    }
    let plane = with_retry(&[1, 2], Retry { tries: Some(0), ..Retry::default() });
    let mut exchange = plane.forward(&get());
    exchange.pick().unwrap();
    assert!(matches!(exchange.failed(failure(FailureKind::Connect)), Next::Retry));
    exchange.pick().unwrap();
    assert_eq!(status_of(exchange.failed(failure(FailureKind::Connect))), StatusCode::BAD_GATEWAY);
}

#[test]
fn a_post_is_sent_once() {
    let plane = Plane::simple(&[1, 2]);
    let mut exchange = plane.forward(&get().method(Method::POST));
    exchange.pick().unwrap();
    assert!(matches!(exchange.failed(failure(FailureKind::Connect)), Next::Retry), "nothing was sent");
    exchange.pick().unwrap();
    assert_eq!(status_of(exchange.failed(failure(FailureKind::Broken))), StatusCode::BAD_GATEWAY);
}

#[test]
fn a_stale_connection_is_replaced_without_counting() {
    let plane = with_retry(&[1, 2], Retry { tries: Some(1), ..Retry::default() });
    let mut exchange = plane.forward(&get().method(Method::POST));
    let first = exchange.pick().unwrap();
    exchange.call.connected(first.address, true);
    let stale = Failure { stale: true, sent: false, ..failure(FailureKind::Broken) };
    assert!(matches!(exchange.failed(stale), Next::Retry));
    let second = exchange.pick().unwrap();
    assert_eq!(second.address, first.address);
    assert!(second.fresh && !first.fresh, "the pool may hold more stale connections");
    exchange.call.connected(second.address, false);
    assert!(exchange.upstream_response(StatusCode::OK, &HeaderMap::new(), true).is_none());
    exchange.end(outcome(200));
    assert!(plane.lines()[0].contains(&format!("[] {} 5 ", first.address)), "{:?}", plane.lines());
    // The failure does not count against the endpoint.
    assert_eq!(plane.state.registry.health().ejected, 0);
}

#[test]
fn off_is_no_retry_of_any_kind() {
    for on in [NextUpstream::default(), NextUpstream { timeout: true, ..NextUpstream::default() }] {
        for stale in [
            Failure { stale: true, sent: false, ..failure(FailureKind::Broken) },
            Failure { stale: true, ..failure(FailureKind::Broken) },
            failure(FailureKind::Connect),
        ] {
            let plane = with_retry(&[1, 2], Retry { on: Some(on), ..Retry::default() });
            let mut exchange = plane.forward(&get());
            let upstream = exchange.pick().unwrap();
            assert!(!upstream.repeatable, "it should not go over a connection that may be closed");
            assert_eq!(status_of(exchange.failed(stale)), StatusCode::BAD_GATEWAY);
        }
    }
}

#[test]
fn a_post_that_a_stale_connection_may_have_taken_is_not_sent_again() {
    let stale = Failure { stale: true, ..failure(FailureKind::Broken) };
    for (method, again) in [(Method::POST, false), (Method::PATCH, false), (Method::PUT, true)] {
        let plane = Plane::simple(&[1, 2]);
        let mut exchange = plane.forward(&get().method(method.clone()));
        assert_eq!(exchange.pick().unwrap().repeatable, again);
        let next = exchange.failed(stale);
        assert_eq!(matches!(next, Next::Retry), again, "{method}: {next:?}");
        assert_eq!(plane.state.registry.health().ejected, 0, "the endpoint was not to blame");
    }
}

#[test]
fn a_stale_connection_is_replaced_once() {
    let plane = with_retry(&[1], Retry { tries: Some(1), ..Retry::default() });
    let mut exchange = plane.forward(&get());
    let stale = Failure { stale: true, ..failure(FailureKind::Broken) };
    exchange.pick().unwrap();
    assert!(matches!(exchange.failed(stale), Next::Retry));
    exchange.pick().unwrap();
    assert_eq!(status_of(exchange.failed(stale)), StatusCode::BAD_GATEWAY);
}

#[test]
fn a_failed_connection_ejects_the_endpoint() {
    let plane = Plane::simple(&[1, 2, 3]);
    fail_at(&plane, 2);
    assert_eq!(plane.state.registry.health().ejected, 1);
    for _ in 0..20 {
        assert_ne!(last(&plane.forward(&get()).pick().unwrap()), 2);
    }
    fail_at(&plane, 1);
    fail_at(&plane, 3);
    assert_eq!(plane.state.registry.health().ejected, 3);
    plane.forward(&get()).pick().expect("with all out, all are used");
}

#[test]
fn a_slow_or_malformed_answer_blames_no_endpoint() {
    let plane = Plane::simple(&[1, 2]);
    for kind in [
        FailureKind::ReadTimeout,
        FailureKind::SendTimeout,
        FailureKind::InvalidHead,
        FailureKind::Client,
        FailureKind::Broken,
        FailureKind::Handshake,
        FailureKind::HandshakeTimeout,
        FailureKind::Shortage,
    ] {
        let mut exchange = plane.forward(&get());
        exchange.pick().unwrap();
        exchange.failed(failure(kind));
    }
    assert_eq!(plane.state.registry.health().ejected, 0);
}

/// A window no longer than the connect timeout shortened every attempt, including the first. A dead
/// machine was therefore never ejected, and each request that met it waited for the whole window.
#[test]
fn a_dead_machine_was_never_ejected_with_a_short_retry_window() {
    let connect = Duration::from_secs(5);
    for window in [connect, Duration::from_secs(1), Duration::from_secs(60)] {
        let mut plane = with_retry(&[1, 2], Retry { timeout: Timeout::After(window), ..Retry::default() });
        plane.tune(|settings| settings.proxy_connect_timeout = connect);
        let mut exchange = plane.forward(&get());
        assert_eq!(exchange.pick().unwrap().connect_timeout, Some(connect), "{window:?}");
        exchange.failed(failure(FailureKind::ConnectTimeout));
        assert_eq!(plane.state.registry.health().ejected, 1, "{window:?}");
    }
}

#[test]
fn a_shortened_connect_timeout_ejects_no_endpoint() {
    for (window, ejected) in [(Timeout::After(Duration::from_secs(60)), 0), (Timeout::Inherit, 1)] {
        let mut plane = with_retry(&[1, 2, 3], Retry { timeout: window, ..Retry::default() });
        plane.tune(|settings| settings.proxy_connect_timeout = Duration::from_secs(60));
        let mut exchange = plane.forward(&get());
        exchange.pick().unwrap();
        assert!(matches!(exchange.failed(failure(FailureKind::ReadTimeout)), Next::Retry));
        let hurried = exchange.pick().unwrap().connect_timeout.unwrap() < Duration::from_secs(60);
        assert_eq!(hurried, ejected == 0, "{window:?}");
        exchange.failed(failure(FailureKind::ConnectTimeout));
        assert_eq!(plane.state.registry.health().ejected, ejected, "{window:?}");
    }
}

/// The replacement of a stale connection belongs to the same attempt, with the same time limit.
#[test]
fn the_replacement_of_a_stale_connection_has_the_whole_timeout() {
    let window = Timeout::After(Duration::from_secs(1));
    let mut plane = with_retry(&[1, 2], Retry { timeout: window, ..Retry::default() });
    plane.tune(|settings| settings.proxy_connect_timeout = Duration::from_secs(5));
    let mut exchange = plane.forward(&get());
    exchange.pick().unwrap();
    let stale = Failure { stale: true, sent: false, ..failure(FailureKind::Broken) };
    assert!(matches!(exchange.failed(stale), Next::Retry));
    assert_eq!(exchange.pick().unwrap().connect_timeout, Some(Duration::from_secs(5)));
    exchange.failed(failure(FailureKind::ConnectTimeout));
    assert_eq!(plane.state.registry.health().ejected, 1);
}

#[test]
fn a_connection_broken_before_the_request_ejects_the_endpoint() {
    let plane = Plane::simple(&[1, 2]);
    let mut exchange = plane.forward(&get().method(Method::POST));
    exchange.pick().unwrap();
    let unseen = Failure { sent: false, ..failure(FailureKind::Broken) };
    assert!(matches!(exchange.failed(unseen), Next::Retry), "no endpoint has processed the request");
    assert_eq!(plane.state.registry.health().ejected, 1);
}

#[test]
fn failures_after_a_protocol_switch_eject_no_endpoint() {
    let plane = Plane::simple(&[1, 2]);
    let mut exchange = plane.forward(&get());
    exchange.pick().unwrap();
    exchange.upstream_response(StatusCode::SWITCHING_PROTOCOLS, &HeaderMap::new(), true);
    let begun = Failure { response_started: true, ..failure(FailureKind::Broken) };
    assert!(matches!(exchange.failed(begun), Next::Abort));
    assert_eq!(plane.state.registry.health().ejected, 0);
}

#[test]
fn a_status_may_lead_to_another_endpoint_and_the_last_is_relayed() {
    let on = NextUpstream { http_503: true, ..NextUpstream::DEFAULT };
    let plane = with_retry(&[1, 2, 3], Retry { on: Some(on), tries: Some(2), ..Retry::default() });
    let response = |exchange: &mut Exchange, status| {
        exchange.pick().unwrap();
        exchange.upstream_response(status, &HeaderMap::new(), true)
    };
    let mut exchange = plane.forward(&get());
    assert!(matches!(response(&mut exchange, StatusCode::SERVICE_UNAVAILABLE), Some(Next::Retry)));
    assert!(response(&mut exchange, StatusCode::SERVICE_UNAVAILABLE).is_none());
    let mut exchange = plane.forward(&get());
    assert!(response(&mut exchange, StatusCode::BAD_GATEWAY).is_none());
    let mut exchange = plane.forward(&get().method(Method::POST));
    assert!(response(&mut exchange, StatusCode::SERVICE_UNAVAILABLE).is_none());
    let mut exchange = plane.forward(&get());
    exchange.pick().unwrap();
    let next = exchange.upstream_response(StatusCode::SERVICE_UNAVAILABLE, &HeaderMap::new(), false);
    assert!(next.is_none(), "the body is gone");
    assert_eq!(plane.state.registry.health().ejected, 0);
}

#[test]
fn timeouts_are_the_rules_else_the_global_ones() {
    let mut plane = Plane::with_policies(
        Balance::RoundRobin,
        &[1],
        Policies {
            timeouts: Timeouts {
                connect: Timeout::Inherit,
                read: Timeout::After(Duration::from_secs(9)),
                send: Timeout::Off,
            },
            retry: Retry { timeout: Timeout::After(Duration::from_secs(3)), ..Retry::default() },
            ..Policies::default()
        },
    );
    plane.tune(|settings| settings.proxy_connect_timeout = Duration::from_secs(7));
    let upstream = plane.forward(&get()).pick().unwrap();
    assert_eq!(upstream.connect_timeout, Some(Duration::from_secs(7)), "the first attempt has it whole");
    assert_eq!(upstream.read_timeout, Some(Duration::from_secs(9)));
    assert_eq!(upstream.send_timeout, None);
    assert_eq!(upstream.keep_alive.idle, Duration::from_secs(60));
}

#[test]
fn requests_on_their_way_are_counted_until_the_end() {
    let plane = Plane::simple(&[1]);
    let in_flight = || plane.state.registry.describe()[0].endpoints[0].in_flight;
    let mut one = plane.forward(&get());
    let mut other = plane.forward(&get());
    one.pick().unwrap();
    other.pick().unwrap();
    assert_eq!(in_flight(), 2);
    one.end(outcome(200));
    assert_eq!(in_flight(), 1);
    drop(other);
    assert_eq!(in_flight(), 0, "dropped without an end");
}
