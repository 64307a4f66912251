//! Basic authentication: when a password is required, and what endpoints receive.

use std::sync::Arc;

use http::StatusCode;
use sluice_config::{
    Action, Backend, BasicAuth, Change, Credentials, Delta, HttpsRedirect, NamespacedName, PasswordHash,
    Policies, Resource, ResourceKey, ResourceKind, Rule,
};

use super::fixture::*;
use crate::pipeline::Originator;
use crate::pipeline::{Question, Reply, Verdict};

/// `ann` with the password `open sesame`, by MD5.
const ANN: &str = "Basic YW5uOm9wZW4gc2VzYW1l";

fn key() -> ResourceKey {
    ResourceKey { kind: ResourceKind::PasswordFile, name: NamespacedName::new("shop", "users") }
}

fn policies() -> Policies {
    let basic_auth = Some(BasicAuth { credentials: key(), realm: "the shop".into() });
    Policies { basic_auth, ..Policies::default() }
}

fn users(plane: &mut Plane) {
    let digest =
        [0x8c, 0x14, 0x10, 0x4c, 0xa0, 0x06, 0xf5, 0xf2, 0x48, 0xe0, 0x36, 0x1c, 0x13, 0x6a, 0xc8, 0xfc];
    let hash = PasswordHash::Md5Crypt { apache: true, salt: "saltsalt".into(), digest };
    let resource = Resource::Credentials(Credentials { users: vec![("ann".into(), hash)] });
    plane.apply(Delta { resources: vec![Change::Put(key(), Arc::new(resource))], ..Delta::default() });
}

fn guarded() -> Plane {
    let mut plane = Plane::with_policies(sluice_config::Balance::RoundRobin, &[1], policies());
    users(&mut plane);
    plane
}

fn get() -> Request {
    Request::get("a.example", "/")
}

#[test]
fn missing_credentials_are_challenged() {
    let answer = guarded().answer(&get());
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert_eq!(field(&answer, "www-authenticate"), Some("Basic realm=\"the shop\""));
    assert!(std::str::from_utf8(&answer.body).unwrap().contains("401 Authorization Required"));
}

#[test]
fn a_password_is_checked_off_the_loop_once_and_then_remembered() {
    let plane = guarded();
    let request = get().with("authorization", ANN);
    let (mut exchange, verdict) = plane.begin(&request);
    let Verdict::Ask(Question::Compute(job)) = verdict else { panic!("{verdict:?}") };
    let reply = job.run();
    assert_eq!(reply, Reply::Checked(true));
    let verdict = exchange.resume(reply, &request.head());
    assert!(matches!(verdict, Verdict::Forward), "{verdict:?}");
    drop(exchange);
    let mut exchange = plane.forward(&request);
    exchange.pick().unwrap();
    let fields = request.upstream_fields(&exchange);
    assert!(!fields.contains_key("authorization"), "the password is ours");
}

#[test]
fn only_a_positive_reply_admits_a_client() {
    for (reply, status) in [
        (Reply::Checked(false), StatusCode::UNAUTHORIZED),
        (Reply::Overloaded, StatusCode::SERVICE_UNAVAILABLE),
        (Reply::Lost, StatusCode::INTERNAL_SERVER_ERROR),
    ] {
        let plane = guarded();
        let request = get().with("authorization", ANN);
        let (mut exchange, verdict) = plane.begin(&request);
        assert!(matches!(verdict, Verdict::Ask(_)), "{verdict:?}");
        match exchange.resume(reply, &request.head()) {
            Verdict::Answer(answer) => assert_eq!(answer.status, status),
            verdict => panic!("{verdict:?}"),
        }
    }
}

#[test]
fn without_users_the_route_is_closed_and_it_opens_with_them() {
    let mut plane = Plane::with_policies(sluice_config::Balance::RoundRobin, &[1], policies());
    assert_eq!(plane.answer(&get().with("authorization", ANN)).status, StatusCode::SERVICE_UNAVAILABLE);
    users(&mut plane);
    assert_eq!(plane.answer(&get()).status, StatusCode::UNAUTHORIZED);
    plane.apply(Delta { resources: vec![Change::Remove(key())], ..Delta::default() });
    assert_eq!(plane.answer(&get()).status, StatusCode::SERVICE_UNAVAILABLE);
}

#[test]
fn redirects_and_missing_backends_come_before_the_password() {
    let mut plane = guarded();
    let force = HttpsRedirect { ssl: None, force: Some(true) };
    let to_https = Arc::new(Policies { https_redirect: force, ..policies() });
    let invalid = Backend::Invalid { status: 503, service: None, reason: "".into() };
    let rules = vec![
        Rule { policies: to_https, ..rule("/https", forward("web")) },
        Rule { policies: Arc::new(policies()), ..rule("/gone", Action::Forward(vec![weighted(1, invalid)])) },
    ];
    assert_eq!(plane.host(exact("a.example"), false, rules), []);
    let status = |target| plane.answer(&Request::get("a.example", target)).status;
    assert_eq!(status("/https"), StatusCode::PERMANENT_REDIRECT);
    assert_eq!(status("/gone"), StatusCode::SERVICE_UNAVAILABLE);
}

#[test]
fn no_auth_locations_exempt_from_passwords_and_keep_the_clients() {
    let mut plane = guarded();
    plane.tune(|settings| settings.no_auth_locations = vec!["/".into()]);
    let request = get().with("authorization", "Bearer token");
    let exchange = plane.forward(&request);
    assert_eq!(request.upstream_fields(&exchange)["authorization"], "Bearer token");
}
