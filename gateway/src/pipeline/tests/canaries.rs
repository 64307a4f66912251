//! Canaries: their place among the backends of a rule.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::StatusCode;
use sluice_config::{
    Action, Backend, Balance, Canary, ErrorBackend, ErrorPages, HashBy, ObjectRef, Policies, Rule, Template,
    TemplatePiece, Variable,
};

use super::fixture::*;
use crate::pipeline::Originator;

/// The last parts of the endpoints' addresses.
const MAIN: u8 = 1;
const CANARY: u8 = 20;
const DEFAULT: u8 = 9;

fn canary() -> Canary {
    Canary {
        object: ObjectRef::new("Ingress", "shop", "next"),
        pool: pool_key("next"),
        service: service("next"),
        header: None,
        cookie: None,
        weight: 100,
        total: 100,
        hash_by: None,
        sticky: true,
    }
}

/// A plane with these endpoints of the canary.
fn plane(policies: Policies, action: Action, main: &[u8], balance: Balance, next: &[u8]) -> Plane {
    let mut plane = Plane::new();
    plane.pool("web", balance, main);
    plane.pool("next", balance, next);
    plane.pool("errors", Balance::RoundRobin, &[DEFAULT]);
    let rule = Rule { policies: Arc::new(policies), ..rule("/", action) };
    assert_eq!(plane.host(exact("a.example"), false, vec![rule]), []);
    plane
}

fn default_backend() -> ErrorPages {
    let pool = pool_key("errors");
    let backend = ErrorBackend { service: service("errors"), pages: pool.clone(), requests: pool };
    ErrorPages { backend: Some(backend), ..ErrorPages::default() }
}

fn invalid() -> Action {
    let service = Some(service("web"));
    let backend = Backend::Invalid { status: 503, service, reason: "it does not exist".into() };
    Action::Forward(vec![weighted(1, backend)])
}

#[test]
fn a_canary_serves_while_the_default_backend_replaces_an_empty_main() {
    let request = Request::get("a.example", "/");
    for action in [forward("web"), invalid()] {
        for (next, expected) in [(&[CANARY][..], CANARY), (&[], DEFAULT)] {
            let policies =
                Policies { canaries: vec![canary()], error_pages: default_backend(), ..Policies::default() };
            let plane = plane(policies, action.clone(), &[], Balance::RoundRobin, next);
            assert_eq!(last(&plane.forward(&request).pick().unwrap()), expected, "{action:?}");
        }
        let policies = Policies {
            canaries: vec![canary()],
            error_pages: ErrorPages { statuses: Some([404].into()), ..ErrorPages::default() },
            ..Policies::default()
        };
        let plane = plane(policies, action, &[], Balance::RoundRobin, &[CANARY]);
        assert_eq!(plane.answer(&request).status, StatusCode::SERVICE_UNAVAILABLE);
    }
}

#[test]
fn the_service_of_a_canary_request_is_that_of_the_rule() {
    for (main, next, expected) in
        [(&[MAIN][..], &[CANARY][..], CANARY), (&[MAIN], &[], MAIN), (&[], &[], DEFAULT)]
    {
        let policies =
            Policies { canaries: vec![canary()], error_pages: default_backend(), ..Policies::default() };
        let plane = plane(policies, forward("web"), main, Balance::RoundRobin, next);
        let mut exchange = plane.forward(&Request::get("a.example", "/"));
        assert_eq!(last(&exchange.pick().unwrap()), expected);
        let route = exchange.route.as_deref().unwrap();
        assert_eq!(exchange.service(route), Some(&service("web")));
    }
}

#[test]
fn a_canary_has_its_own_hash_key() {
    let key = || {
        let pieces = vec![TemplatePiece::Variable(Variable::Field("x-key".into()))];
        Some(Arc::new(HashBy { key: Template { pieces }, subset: None }))
    };
    for (of_main, of_canary, endpoints) in [(None, key(), 1), (key(), None, 3)] {
        let canaries = vec![Canary { hash_by: of_canary, ..canary() }];
        let policies = Policies { canaries, hash_by: of_main, ..Policies::default() };
        let plane = plane(policies, forward("web"), &[MAIN], Balance::Ring, &[20, 21, 22]);
        let request = Request::get("a.example", "/").with("x-key", "u1");
        let reached: BTreeSet<u8> = (0..12).map(|_| last(&plane.forward(&request).pick().unwrap())).collect();
        assert_eq!(reached.len(), endpoints, "{reached:?}");
    }
}
