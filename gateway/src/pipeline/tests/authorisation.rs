//! Requests to an authorisation service, and the effect of its replies.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use sluice_config::{
    AuthCache, Authorisation, Balance, CallDestination, Change, Delta, ExternalAuth, HeaderSet,
    NamespacedName, Policies, Resource, ResourceKey, ResourceKind, Rule, Template, TemplatePiece, Variable,
};

use super::fixture::*;
use crate::pipeline::{
    Answer, CallFailure, Exchange, Failure, FailureKind, Next, Originator, OwnCall, Question, Reply,
    Subrequest, SubrequestResponse, Verdict,
};

fn text(text: &str) -> Template {
    Template { pieces: vec![TemplatePiece::Text(text.into())] }
}

fn fixed(pool: &str, host: &str) -> CallDestination {
    CallDestination::Fixed { pool: pool_key(pool), host: host.into(), server_name: None }
}

fn auth() -> ExternalAuth {
    let pieces =
        vec![TemplatePiece::Text("/check?uri=".into()), TemplatePiece::Variable(Variable::EscapedRequestUri)];
    ExternalAuth {
        response_headers: vec!["X-User".into(), "X-Groups".into()],
        ..external_auth(Template { pieces })
    }
}

fn plane(authorisation: Authorisation) -> Plane {
    let mut plane = Plane::new();
    plane.pool("web", Balance::RoundRobin, &[1]);
    plane.pool("auth", Balance::RoundRobin, &[9]);
    serve(&mut plane, authorisation);
    plane
}

fn serve(plane: &mut Plane, authorisation: Authorisation) {
    let policies = Policies { authorisation, ..Policies::default() };
    let rule = Rule { policies: Arc::new(policies), ..rule("/", forward("web")) };
    assert_eq!(plane.host(exact("a.example"), false, vec![rule]), []);
}

fn own(auth: ExternalAuth) -> Authorisation {
    Authorisation::Own(Arc::new(auth))
}

fn asks(verdict: Verdict) -> Subrequest {
    match verdict {
        Verdict::Ask(Question::Call(subrequest)) => *subrequest,
        other => panic!("{other:?}"),
    }
}

fn answer(verdict: Verdict) -> Answer {
    match verdict {
        Verdict::Answer(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn said(status: u16, fields: &[(&'static str, &'static str)]) -> Reply {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let status = StatusCode::from_u16(status).unwrap();
    Reply::Response(Box::new(SubrequestResponse { status, fields: map, body: Bytes::new(), whole: true }))
}

fn of<'s>(subrequest: &'s Subrequest, name: &str) -> Option<&'s str> {
    let mut values = subrequest.fields.iter().filter(|(field, _)| field == name);
    let value = values.next().map(|(_, value)| value.to_str().unwrap());
    assert!(values.next().is_none(), "{name} stands twice");
    value
}

fn upstream_head(exchange: &mut Exchange, request: &Request) -> HeaderMap {
    exchange.pick().unwrap();
    request.upstream_fields(exchange)
}

#[test]
fn the_subrequest_describes_the_request() {
    let plane = plane(own(auth()));
    let request = Request::get("a.example", "/shop?x=1")
        .method(Method::POST)
        .with("cookie", "session=1")
        .with("content-length", "5")
        .with("connection", "x-hop")
        .with("x-hop", "1")
        .with("if-none-match", "\"1\"")
        .with("x-forwarded-for", "6.6.6.6")
        .with("x-forwarded-proto", "https")
        .with("x-sent-from", "me");
    let asked = asks(plane.begin(&request).1);
    assert_eq!((asked.method.as_str(), asked.target.as_str()), ("GET", "/check?uri=%2Fshop%3Fx%3D1"));
    for (name, value) in [
        ("host", Some("auth.example")),
        ("cookie", Some("session=1")),
        ("x-original-url", Some("http://a.example/shop?x=1")),
        ("x-original-method", Some("POST")),
        ("x-auth-request-redirect", Some("/shop?x=1")),
        ("x-sent-from", Some("nginx-ingress-controller")),
        ("x-real-ip", Some("192.0.2.7")),
        ("x-forwarded-for", Some("192.0.2.7")),
        ("x-forwarded-proto", None),
        ("x-original-uri", None),
        ("content-length", None),
        ("connection", None),
        ("x-hop", None),
        ("if-none-match", None),
    ] {
        assert_eq!(of(&asked, name), value, "{name}");
    }
    assert_eq!(of(&asked, "x-request-id").unwrap().len(), 32);
}

#[test]
fn with_a_method_the_subrequest_has_more_fields() {
    let with_method =
        ExternalAuth { method: Some("POST".into()), request_redirect: Some(text("/home")), ..auth() };
    let plane = plane(own(with_method));
    let asked = asks(plane.begin(&Request::get("a.example", "/shop?x=1").https()).1);
    assert_eq!(asked.method, Method::POST);
    assert_eq!(of(&asked, "x-original-uri"), Some("/shop?x=1"));
    assert_eq!(of(&asked, "x-scheme"), Some("https"));
    assert_eq!(of(&asked, "x-original-url"), Some("https://a.example/shop?x=1"));
    assert_eq!(of(&asked, "x-auth-request-redirect"), Some("/home"));
}

#[test]
fn status_2xx_passes_with_the_services_fields() {
    for status in [200, 202, 204] {
        let plane = plane(own(auth()));
        let request = Request::get("a.example", "/").with("x-user", "forged").with("x-groups", "admin");
        let (mut exchange, verdict) = plane.begin(&request);
        asks(verdict);
        let reply = said(status, &[("x-user", "ann"), ("set-cookie", "a=1"), ("set-cookie", "b=2")]);
        assert!(matches!(exchange.resume(reply, &request.head()), Verdict::Forward));
        let sent = upstream_head(&mut exchange, &request);
        assert_eq!(sent["x-user"], "ann");
        assert!(!sent.contains_key("x-groups"), "only the service sets the field");
        let mut response = http::Response::new(());
        exchange.response(&mut response);
        assert_eq!(response.headers().get_all("set-cookie").iter().collect::<Vec<_>>(), ["a=1", "b=2"]);
        let mut response = http::Response::new(());
        *response.status_mut() = StatusCode::NOT_FOUND;
        exchange.response(&mut response);
        assert!(!response.headers().contains_key("set-cookie"));
    }
}

#[test]
fn denials_are_passed_on_and_everything_else_is_500() {
    let plane = plane(own(auth()));
    let request = Request::get("a.example", "/");
    for (reply, status) in [
        (said(401, &[("www-authenticate", "Basic realm=\"x\"")]), 401),
        (said(403, &[]), 403),
        (said(302, &[("location", "/login")]), 500),
        (said(404, &[]), 500),
        (said(500, &[]), 500),
        (Reply::NoResponse(CallFailure::NoEndpoint), 500),
        (Reply::NoResponse(CallFailure::Attempt(FailureKind::ReadTimeout)), 500),
        // A local shortage is not the service's decision.
        (Reply::NoResponse(CallFailure::Attempt(FailureKind::Memory)), 503),
        (Reply::NoResponse(CallFailure::Attempt(FailureKind::Shortage)), 503),
        (Reply::Overloaded, 500),
        (Reply::Checked(true), 500),
    ] {
        let (mut exchange, verdict) = plane.begin(&request);
        asks(verdict);
        let answer = answer(exchange.resume(reply, &request.head()));
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(field(&answer, "www-authenticate"), (status == 401).then_some("Basic realm=\"x\""));
        assert!(field(&answer, "set-cookie").is_none());
    }
    let (mut exchange, verdict) = plane.begin(&request);
    asks(verdict);
    exchange.resume(said(401, &[]), &request.head());
    let again = answer(exchange.resume(said(200, &[]), &request.head()));
    assert_eq!(again.status.as_u16(), 500, "there was no second query");
}

#[test]
fn a_401_redirects_to_the_sign_in_page_with_the_cookie() {
    let sign_in = Template {
        pieces: vec![
            TemplatePiece::Text("https://login.example/?rd=".into()),
            TemplatePiece::Variable(Variable::PassAccessScheme),
            TemplatePiece::Text("://".into()),
            TemplatePiece::Variable(Variable::HttpHost),
            TemplatePiece::Variable(Variable::EscapedRequestUri),
        ],
    };
    let plane = plane(own(ExternalAuth { sign_in: Some(sign_in), ..auth() }));
    let request = Request::get("a.example", "/shop?x=1").https();
    let (mut exchange, verdict) = plane.begin(&request);
    asks(verdict);
    let answer = answer(exchange.resume(said(401, &[("set-cookie", "csrf=1")]), &request.head()));
    assert_eq!(answer.status, StatusCode::FOUND);
    assert_eq!(
        field(&answer, "location"),
        Some("https://login.example/?rd=https://a.example%2Fshop%3Fx%3D1")
    );
    assert_eq!(field(&answer, "set-cookie"), Some("csrf=1"));
    let (mut exchange, _) = plane.begin(&request);
    assert_eq!(self::answer(exchange.resume(said(403, &[]), &request.head())).status, StatusCode::FORBIDDEN);
}

/// As in nginx, only `relative-redirects` of the ConfigMap leaves scheme and host out.
#[test]
fn a_sign_in_path_becomes_a_url_of_the_host() {
    let sign_in = Template { pieces: vec![TemplatePiece::Text("/login?rd=x".into())] };
    let locations = sluice_config::Locations { relative: Some(true), port: Some(true), trailing_slash: None };
    let authorisation = own(ExternalAuth { sign_in: Some(sign_in), ..auth() });
    let policies = Policies { authorisation, locations, ..Policies::default() };
    let mut plane = plane(Authorisation::Off);
    let rule = Rule { policies: Arc::new(policies), ..rule("/", forward("web")) };
    assert_eq!(plane.host(exact("a.example"), false, vec![rule]), []);
    for (relative, location) in [(false, "https://a.example/login?rd=x"), (true, "/login?rd=x")] {
        plane.tune(|settings| settings.relative_redirects = relative);
        let request = Request::get("a.example:8443", "/shop").https();
        let (mut exchange, verdict) = plane.begin(&request);
        asks(verdict);
        let answer = answer(exchange.resume(said(401, &[]), &request.head()));
        assert_eq!(field(&answer, "location"), Some(location));
    }
}

#[test]
fn a_service_without_endpoint_or_pool_admits_no_request() {
    let mut plane = plane(own(auth()));
    plane.endpoints("web", &[]);
    assert_eq!(plane.answer(&Request::get("a.example", "/")).status, StatusCode::SERVICE_UNAVAILABLE);
    let policies = Policies {
        authorisation: own(ExternalAuth { to: fixed("none", "auth.example"), ..auth() }),
        ..Policies::default()
    };
    let broken = Rule { policies: Arc::new(policies), ..rule("/", forward("web")) };
    assert_eq!(plane.host(exact("a.example"), false, vec![broken]).len(), 1);
    assert_eq!(plane.answer(&Request::get("a.example", "/")).status, StatusCode::SERVICE_UNAVAILABLE);
}

#[test]
fn a_cached_reply_is_reused_for_its_key_only() {
    let key = Template { pieces: vec![TemplatePiece::Variable(Variable::Cookie("session".into()))] };
    let cache = AuthCache { key, valid: Some(vec![(vec![200, 401], Duration::from_secs(60))]) };
    let plane = plane(own(ExternalAuth { cache: Some(cache), ..auth() }));
    let request = |session: &str| Request::get("a.example", "/").with("cookie", session);
    let ann = request("session=ann");
    let (mut exchange, verdict) = plane.begin(&ann);
    asks(verdict);
    exchange.resume(said(200, &[("x-user", "ann")]), &ann.head());
    let (mut exchange, verdict) = plane.begin(&ann);
    assert!(matches!(verdict, Verdict::Forward), "{verdict:?}");
    assert_eq!(upstream_head(&mut exchange, &ann)["x-user"], "ann");
    let bob = request("session=bob");
    let (mut exchange, verdict) = plane.begin(&bob);
    asks(verdict);
    exchange.resume(said(401, &[]), &bob.head());
    assert_eq!(plane.answer(&bob).status, StatusCode::UNAUTHORIZED);
    let eve = request("session=eve");
    for _ in 0..2 {
        let (mut exchange, verdict) = plane.begin(&eve);
        asks(verdict);
        exchange.resume(said(500, &[]), &eve.head());
    }
}

#[test]
fn the_global_service_applies_unless_a_rule_disables_it() {
    let mut plane = plane(Authorisation::Global);
    let request = Request::get("a.example", "/");
    plane.forward(&request);
    let global = ExternalAuth { to: fixed("auth", "global.example"), ..auth() };
    plane.tune(|settings| settings.global_auth = Some(Arc::new(global)));
    assert_eq!(of(&asks(plane.begin(&request).1), "host"), Some("global.example"));
    serve(&mut plane, own(auth()));
    assert_eq!(of(&asks(plane.begin(&request).1), "host"), Some("auth.example"));
    serve(&mut plane, Authorisation::Off);
    plane.forward(&request);
    serve(&mut plane, Authorisation::Global);
    plane.tune(|settings| settings.no_auth_locations = vec!["/".into()]);
    plane.forward(&request);
    plane.tune(|settings| {
        settings.no_auth_locations = Vec::new();
        settings.global_auth = Some(Arc::new(ExternalAuth { to: fixed("late", "auth.example"), ..auth() }));
    });
    assert_eq!(plane.answer(&request).status, StatusCode::SERVICE_UNAVAILABLE, "it cannot be asked");
    plane.pool("late", Balance::RoundRobin, &[9]);
    asks(plane.begin(&request).1);
}

#[test]
fn a_missing_header_set_closes_the_route_before_the_subrequest() {
    let key = ResourceKey { kind: ResourceKind::Headers, name: NamespacedName::new("shop", "fields") };
    let mut plane = plane(own(ExternalAuth { set_headers: Some(key.clone()), ..auth() }));
    let request = Request::get("a.example", "/").with("x-tenant", "forged");
    assert_eq!(plane.answer(&request).status, StatusCode::INTERNAL_SERVER_ERROR);
    let set = HeaderSet { fields: vec![("x-tenant".into(), Template::plain("blue"))] };
    let put = Change::Put(key, Arc::new(Resource::Headers(set)));
    plane.apply(Delta { resources: vec![put], ..Delta::default() });
    assert_eq!(of(&asks(plane.begin(&request).1), "x-tenant"), Some("blue"));
}

#[test]
fn an_invalid_subrequest_target_is_not_sent() {
    let target = Template {
        pieces: vec![
            TemplatePiece::Text("/".into()),
            TemplatePiece::Variable(Variable::Field("x-path".into())),
        ],
    };
    let plane = plane(own(ExternalAuth { target, ..auth() }));
    let request = |path: &str| Request::get("a.example", "/").with("x-path", path);
    asks(plane.begin(&request("fine")).1);
    assert_eq!(plane.answer(&request("a HTTP/1.1")).status, StatusCode::INTERNAL_SERVER_ERROR);
}

#[test]
fn a_gateway_that_queries_itself_stops_at_the_hop_limit() {
    let plane = plane(own(auth()));
    let request = Request::get("a.example", "/");
    assert_eq!(of(&asks(plane.begin(&request).1), "x-sluice-hops"), Some("1"));
    let request = request.with("x-sluice-hops", "16");
    assert_eq!(plane.answer(&request).status, StatusCode::LOOP_DETECTED);
}

#[test]
fn a_slow_authorisation_service_is_queried_once() {
    let mut plane = plane(own(auth()));
    plane.pool("auth", Balance::RoundRobin, &[7, 8, 9]);
    let (_exchange, verdict) = plane.begin(&Request::get("a.example", "/"));
    let mut own_call = OwnCall::new(asks(verdict));
    own_call.pick().unwrap();
    let timeout = Failure::before_connecting(FailureKind::ConnectTimeout, true);
    assert!(matches!(own_call.failed(timeout), Next::Retry));
    let upstream = own_call.pick().unwrap();
    own_call.call().connected(upstream.address, true);
    let stale = Failure { stale: true, ..Failure::before_connecting(FailureKind::Broken, true) };
    assert!(matches!(own_call.failed(stale), Next::Retry), "a stale connection was no attempt");
    let upstream = own_call.pick().unwrap();
    own_call.call().connected(upstream.address, false);
    let slow = Failure { sent: true, ..Failure::before_connecting(FailureKind::ReadTimeout, true) };
    assert!(matches!(own_call.failed(slow), Next::Answer(CallFailure::Attempt(FailureKind::ReadTimeout))));
}

#[test]
fn no_auth_locations_exempt_from_a_rules_own_authentication() {
    let mut plane = plane(own(auth()));
    let request = Request::get("a.example", "/");
    asks(plane.begin(&request).1);
    plane.tune(|settings| settings.no_auth_locations = vec!["/".into()]);
    plane.forward(&request);
}
