//! Access with all checks required, and with any one of them.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use sluice_config::{
    Authorisation, Balance, BasicAuth, Change, Credentials, Delta, ExternalAuth, NamespacedName, Network,
    PasswordHash, Policies, Resource, ResourceKey, ResourceKind, Rule, Satisfy, Sources, Template,
    TemplatePiece,
};

use super::fixture::*;
use crate::pipeline::Originator;
use crate::pipeline::SubrequestResponse;
use crate::pipeline::{Answer, Question, Reply, Verdict};

/// `ann` with the password `x`.
const ANN: &str = "Basic YW5uOng=";
const WRONG: &str = "Basic YW5uOnk=";

fn key() -> ResourceKey {
    ResourceKey { kind: ResourceKind::PasswordFile, name: NamespacedName::new("shop", "users") }
}

fn auth(sign_in: Option<&str>) -> Authorisation {
    let text = |text: &str| Template { pieces: vec![TemplatePiece::Text(text.into())] };
    Authorisation::Own(Arc::new(ExternalAuth {
        sign_in: sign_in.map(text),
        response_headers: vec!["X-User".into()],
        ..external_auth(text("/check"))
    }))
}

fn listed(allow: Option<&str>, deny: Option<&str>) -> Sources {
    let networks = |text: &str| [Network { address: text.parse().unwrap(), prefix: 32 }].into();
    Sources { allow: allow.map(networks), deny: deny.map(networks) }
}

fn password() -> Option<BasicAuth> {
    Some(BasicAuth { credentials: key(), realm: "shop".into() })
}

/// The client's address in all tests.
const HERE: Option<&str> = Some("192.0.2.7");
const ELSEWHERE: Option<&str> = Some("192.0.2.8");

fn plane(policies: Policies) -> Plane {
    let mut plane = Plane::new();
    plane.pool("web", Balance::RoundRobin, &[1]);
    plane.pool("auth", Balance::RoundRobin, &[9]);
    let users = vec![("ann".into(), PasswordHash::Plain("x".into()))];
    let users = Resource::Credentials(Credentials { users });
    plane.apply(Delta { resources: vec![Change::Put(key(), Arc::new(users))], ..Delta::default() });
    let rule = Rule { policies: Arc::new(policies), ..rule("/", forward("web")) };
    assert_eq!(plane.host(exact("a.example"), false, vec![rule]), []);
    plane
}

/// Returns the answer to a request, or `None` if it is forwarded. The service answers with `says`
/// if it is queried.
fn sent(plane: &Plane, authorization: Option<&str>, says: Option<u16>) -> Option<Answer> {
    let request = Request::get("a.example", "/");
    let request = match authorization {
        Some(value) => request.with("authorization", value),
        None => request,
    };
    let (mut exchange, mut verdict) = plane.begin(&request);
    if let Verdict::Ask(Question::Call(_)) = verdict {
        let status = StatusCode::from_u16(says.expect("the service must not be queried")).unwrap();
        let response =
            SubrequestResponse { status, fields: HeaderMap::new(), body: Bytes::new(), whole: true };
        verdict = exchange.resume(Reply::Response(Box::new(response)), &request.head());
    }
    match verdict {
        Verdict::Forward => None,
        Verdict::Answer(answer) => Some(answer),
        Verdict::Ask(question) => panic!("{question:?}"),
    }
}

fn status(plane: &Plane, authorization: Option<&str>, says: Option<u16>) -> u16 {
    sent(plane, authorization, says).map_or(200, |answer| answer.status.as_u16())
}

#[test]
fn any_one_of_address_and_password_is_enough_or_all_of_them() {
    for (sources, satisfy, with, without) in [
        (listed(HERE, None), Satisfy::All, 200, 401),
        (listed(ELSEWHERE, None), Satisfy::All, 403, 403),
        (listed(HERE, None), Satisfy::Any, 200, 200),
        (listed(ELSEWHERE, None), Satisfy::Any, 200, 401),
        // As in nginx: an address that is not denied is not thereby admitted.
        (listed(None, HERE), Satisfy::Any, 200, 401),
        (listed(None, ELSEWHERE), Satisfy::Any, 200, 401),
        (listed(HERE, HERE), Satisfy::Any, 200, 401),
        (Sources::default(), Satisfy::Any, 200, 401),
    ] {
        let said = format!("{sources:?} {satisfy:?}");
        let plane = plane(Policies { sources, satisfy, basic_auth: password(), ..Policies::default() });
        assert_eq!(status(&plane, Some(ANN), None), with, "{said}");
        assert_eq!(status(&plane, None, None), without, "{said}");
        assert_eq!(status(&plane, Some(WRONG), None), without, "{said}");
    }
}

#[test]
fn without_checks_all_clients_pass_and_a_list_alone_decides() {
    for (sources, expected) in
        [(Sources::default(), 200), (listed(ELSEWHERE, None), 403), (listed(None, ELSEWHERE), 200)]
    {
        let plane = plane(Policies { sources, satisfy: Satisfy::Any, ..Policies::default() });
        assert_eq!(status(&plane, None, None), expected);
    }
}

#[test]
fn the_service_is_queried_last_and_only_if_needed() {
    let policies = || Policies {
        sources: listed(ELSEWHERE, None),
        satisfy: Satisfy::Any,
        basic_auth: password(),
        authorisation: auth(None),
        ..Policies::default()
    };
    let plane = plane(policies());
    assert_eq!(status(&plane, Some(ANN), None), 200);
    for (says, expected) in [(204, 200), (401, 401), (403, 401), (500, 500), (302, 500)] {
        assert_eq!(status(&plane, None, Some(says)), expected, "{says}");
    }
    let plane = self::plane(Policies { basic_auth: None, ..policies() });
    for (says, expected) in [(204, 200), (401, 401), (403, 403)] {
        assert_eq!(status(&plane, None, Some(says)), expected, "{says}");
    }
}

#[test]
fn a_refusal_by_all_checks_lists_every_challenge() {
    let policies = |sign_in| Policies {
        satisfy: Satisfy::Any,
        basic_auth: password(),
        authorisation: auth(sign_in),
        ..Policies::default()
    };
    let answer = sent(&plane(policies(None)), None, Some(401)).unwrap();
    assert_eq!(field(&answer, "www-authenticate"), Some("Basic realm=\"shop\""));
    let answer = sent(&plane(policies(Some("https://login.example/"))), None, Some(401)).unwrap();
    assert_eq!(
        (answer.status, field(&answer, "location")),
        (StatusCode::FOUND, Some("https://login.example/"))
    );
}

#[test]
fn sign_in_replaces_every_401_of_its_rule() {
    let policies =
        |sign_in| Policies { basic_auth: password(), authorisation: auth(sign_in), ..Policies::default() };
    let plane_with = |sign_in| plane(policies(sign_in));
    for credentials in [None, Some(WRONG)] {
        let answer = sent(&plane_with(Some("https://login.example/")), credentials, None).unwrap();
        let location = field(&answer, "location");
        assert_eq!((answer.status, location), (StatusCode::FOUND, Some("https://login.example/")));
        assert_eq!(field(&answer, "www-authenticate"), None);
        assert_eq!(status(&plane_with(None), credentials, None), 401);
    }
    assert_eq!(status(&plane_with(Some("https://login.example/")), Some(ANN), Some(403)), 403);
}

#[test]
fn only_the_service_sets_its_fields() {
    let plane = plane(Policies {
        sources: listed(HERE, None),
        satisfy: Satisfy::Any,
        authorisation: auth(None),
        ..Policies::default()
    });
    let request = Request::get("a.example", "/").with("x-user", "root");
    let mut exchange = plane.forward(&request);
    exchange.pick().unwrap();
    let fields = request.upstream_fields(&exchange);
    assert!(!fields.contains_key("x-user"), "{fields:?}");
}
