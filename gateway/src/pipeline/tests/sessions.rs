//! Sticky sessions.

use std::collections::BTreeSet;
use std::time::Instant;

use http::StatusCode;
use http::header::SET_COOKIE;
use sluice_config::{Action, AffinityMode, Balance, CookieAffinity, Policies, Rule};

use super::fixture::*;
use crate::pipeline::Originator;
use crate::pipeline::{Exchange, FailureKind, Next};
use crate::policy::affinity::backend_digits;

fn affinity(mode: AffinityMode) -> CookieAffinity {
    CookieAffinity { mode, name: "route".into(), ..CookieAffinity::default() }
}

fn plane(policy: CookieAffinity, endpoints: &[u8]) -> Plane {
    let balance = match policy.mode {
        AffinityMode::Balanced => Balance::Ring,
        AffinityMode::Persistent => Balance::RoundRobin,
    };
    let policies = Policies { affinity: Some(policy), ..Policies::default() };
    let plane = Plane::with_policies(balance, endpoints, policies);
    if balance == Balance::Ring && !endpoints.is_empty() {
        wait_for_ring(&plane);
    }
    plane
}

/// Rings are built off the request path.
fn wait_for_ring(plane: &Plane) {
    let pool = plane.state.registry.pool(&pool_key("web")).unwrap();
    while pool.owner(b"any").is_none() {
        std::thread::yield_now();
    }
}

/// Value of the session cookie that the response sets.
fn cookie(exchange: &mut Exchange) -> Option<String> {
    let mut head = http::Response::new(());
    exchange.response(&mut head);
    let head = head.headers();
    assert!(head.get_all(SET_COOKIE).iter().count() <= 1);
    let value = head.get(SET_COOKIE)?.to_str().unwrap();
    let (pair, attributes) = value.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/; HttpOnly");
    Some(pair.strip_prefix("route=").unwrap().to_owned())
}

fn get(cookie: Option<&str>) -> Request {
    let request = Request::get("a.example", "/");
    match cookie {
        Some(value) => request.with("cookie", &format!("x=y; route={value}")),
        None => request,
    }
}

fn digits() -> String {
    String::from_utf8(backend_digits("shop-web-80").to_vec()).unwrap()
}

#[test]
fn a_session_begins_with_a_cookie_and_stays() {
    for mode in [AffinityMode::Balanced, AffinityMode::Persistent] {
        let plane = plane(affinity(mode), &[1, 2, 3, 4]);
        let mut reached = BTreeSet::new();
        for _ in 0..40 {
            let mut first = plane.forward(&get(None));
            let endpoint = last(&first.pick().unwrap());
            let value = cookie(&mut first).expect("a cookie");
            assert_eq!(value.split_once('|').unwrap().1, digits());
            reached.insert(endpoint);
            for _ in 0..3 {
                let mut next = plane.forward(&get(Some(&value)));
                assert_eq!(last(&next.pick().unwrap()), endpoint, "{mode:?}");
                assert_eq!(cookie(&mut next), None, "{mode:?}: only a new session sets a cookie");
            }
        }
        assert_eq!(reached.len(), 4, "{mode:?}: sessions are spread");
    }
}

#[test]
fn in_mode_balanced_a_foreign_key_leads_somewhere_too() {
    let plane = plane(affinity(AffinityMode::Balanced), &[1, 2, 3]);
    for value in ["made-up", "a|b|c", "1622464614.652.30.433396|d0ec4"] {
        let mut exchange = plane.forward(&get(Some(value)));
        let endpoint = last(&exchange.pick().unwrap());
        assert_eq!(cookie(&mut exchange), None);
        assert_eq!(last(&plane.forward(&get(Some(value))).pick().unwrap()), endpoint);
    }
}

#[test]
fn in_mode_persistent_the_key_names_the_endpoint() {
    let mut plane = plane(affinity(AffinityMode::Persistent), &[1, 2]);
    // printf 'shop-web-8010.0.0.1:8080' | md5sum
    let value = format!("d6f09bcae656a7f9aea060e3d855df9f|{}", digits());
    for _ in 0..4 {
        assert_eq!(last(&plane.forward(&get(Some(&value))).pick().unwrap()), 1);
    }
    let mut foreign = plane.forward(&get(Some("made-up")));
    foreign.pick().unwrap();
    assert!(cookie(&mut foreign).is_some(), "an unknown key begins a session");
    plane.endpoints("web", &[2, 3]);
    let mut moved = plane.forward(&get(Some(&value)));
    assert_ne!(last(&moved.pick().unwrap()), 1);
    assert_ne!(cookie(&mut moved).unwrap(), value, "the endpoint is gone");
}

#[test]
fn a_session_stays_with_a_dead_endpoint_unless_configured_to_change() {
    for mode in [AffinityMode::Balanced, AffinityMode::Persistent] {
        for change_on_failure in [false, true] {
            let plane = plane(CookieAffinity { change_on_failure, ..affinity(mode) }, &[1, 2, 3]);
            let mut first = plane.forward(&get(None));
            let endpoint = last(&first.pick().unwrap());
            let value = cookie(&mut first).unwrap();
            drop(first);
            // The endpoint is ejected; the session stays.
            let mut exchange = plane.forward(&get(Some(&value)));
            for attempt in 1..=3 {
                let picked = last(&exchange.pick().unwrap());
                assert_eq!(picked == endpoint, attempt == 1 || !change_on_failure, "{mode:?} {attempt}");
                if picked != endpoint {
                    break;
                }
                let next = exchange.failed(failure(FailureKind::Connect));
                match (attempt, next) {
                    (3, Next::Answer(answer)) => assert_eq!(answer.status, StatusCode::BAD_GATEWAY),
                    (1 | 2, Next::Retry) => (),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(cookie(&mut exchange).is_some(), change_on_failure, "{mode:?}");
        }
    }
}

#[test]
fn a_first_request_is_tried_elsewhere_and_the_cookie_names_where_it_went() {
    for mode in [AffinityMode::Balanced, AffinityMode::Persistent] {
        let plane = plane(affinity(mode), &[1, 2, 3]);
        let mut exchange = plane.forward(&get(None));
        let dead = last(&exchange.pick().unwrap());
        assert!(matches!(exchange.failed(failure(FailureKind::Connect)), Next::Retry));
        let alive = last(&exchange.pick().unwrap());
        assert_ne!(alive, dead);
        let value = cookie(&mut exchange).unwrap();
        assert_eq!(last(&plane.forward(&get(Some(&value))).pick().unwrap()), alive, "{mode:?}");
    }
}

#[test]
fn an_endpoint_on_trial_got_its_whole_share_of_new_sessions() {
    let plane = plane(affinity(AffinityMode::Balanced), &[1, 2]);
    let mut exchange = plane.forward(&get(None));
    let dead = exchange.pick().unwrap().address;
    assert!(matches!(exchange.failed(failure(FailureKind::Connect)), Next::Retry));
    let pool = plane.state.registry.pool(&pool_key("web")).unwrap();
    let owners = (0_u32..).filter_map(|key| pool.owner(&key.to_be_bytes()));
    let endpoint = owners.into_iter().find(|endpoint| endpoint.address() == dead).unwrap();
    while endpoint.ejected_for(Instant::now()).is_some() {
        std::thread::yield_now();
    }
    let begun = || plane.forward(&get(None)).pick().unwrap().address;
    let tried = (0..40).filter(|_| begun() == dead).count();
    assert!(tried <= 1, "{tried}: one request per second tries it");
}

#[test]
fn a_session_finds_its_backend_among_several() {
    let mut plane = Plane::new();
    plane.pool("web", Balance::RoundRobin, &[1]);
    plane.pool("old", Balance::RoundRobin, &[2]);
    let policies = Policies { affinity: Some(affinity(AffinityMode::Persistent)), ..Policies::default() };
    let both = Action::Forward(vec![weighted(1, backend("web")), weighted(0, backend("old"))]);
    let both = Rule { policies: policies.into(), ..rule("/", both) };
    assert_eq!(plane.host(exact("a.example"), false, vec![both]), []);
    let old = String::from_utf8(backend_digits("shop-old-80").to_vec()).unwrap();
    let mut exchange = plane.forward(&get(Some(&format!("x|{old}"))));
    assert_eq!(last(&exchange.pick().unwrap()), 2, "weight 0 keeps the sessions it has");
    assert_eq!(last(&plane.forward(&get(None)).pick().unwrap()), 1);
}

#[test]
fn without_endpoints_there_is_503_and_no_cookie() {
    for mode in [AffinityMode::Balanced, AffinityMode::Persistent] {
        let plane = plane(affinity(mode), &[]);
        let answer = plane.answer(&get(None));
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(field(&answer, "set-cookie").is_none());
    }
}
