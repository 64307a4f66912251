//! The error page of a host, which clients without an acceptable certificate get in place of 400.

use std::sync::Arc;

use http::Method;
use sluice_config::access::Sources;
use sluice_config::directives::{AfterRewrite, Instruction};
use sluice_config::{
    Authorisation, Balance, CertificateErrorPage, Change, ClientCertificateMode, ClientCertificates, Delta,
    Deny, Directives, HeaderSet, Location, Network, Policies, Resource, ResourceKey, ResourceKind, Rewrite,
    RewritePart, RewriteQuery, Rule, Template, TemplatePiece, Variable,
};

use super::client_certificates::{authority, client, connection_with, policy, trust, verification, verify};
use super::fixture::*;
use crate::connection::info::ConnectionInfo;
use crate::message::request_head::{ReceivedLine, RequestHead};
use crate::pipeline::stages::ORDER;
use crate::pipeline::{Exchange, Originator, PipelineStage, Question, Verdict};
use crate::state::snapshot::PublishedSnapshot;
use crate::tap::{CheckResult, RequestFilter};

const PAGE: &str = "/denied?why=certificate";

fn policy_with_page() -> ClientCertificates {
    let error_page = Some(CertificateErrorPage::Path(PAGE.into()));
    ClientCertificates { error_page, ..policy(ClientCertificateMode::Required) }
}

fn plane(rules: Vec<Rule>) -> Plane {
    let mut plane = Plane::new();
    for (service, endpoint) in [("web", 1), ("help", 2), ("auth", 3)] {
        plane.pool(service, Balance::RoundRobin, &[endpoint]);
    }
    verify(&mut plane, policy_with_page(), rules);
    trust(&mut plane, &authority());
    plane
}

/// A plane whose page has these policies.
fn page_with(policies: Policies) -> Plane {
    let page = Rule { policies: Arc::new(policies), ..rule("/denied", forward("help")) };
    plane(vec![page, rule("/", forward("web"))])
}

fn secret() -> Request {
    Request::get("a.example", "/secret?a=1").method(Method::POST)
}

fn refused(plane: &Plane, request: &Request) -> Box<Exchange> {
    let connection = connection_with(Some(verification()), None);
    match Exchange::begin(PublishedSnapshot::take(&plane.state), &connection, &request.head()) {
        (exchange, Verdict::Answer(answer)) if answer.status == 400 => exchange,
        (_, verdict) => panic!("{verdict:?}"),
    }
}

/// Requests the page as an engine does after the refusal of `request`.
fn page(plane: &Plane, request: &Request) -> (Box<Exchange>, Verdict) {
    let mut exchange = refused(plane, request);
    let target = exchange.take_certificate_page().unwrap();
    assert_eq!(target.as_str(), PAGE);
    let replaced = Request { method: Method::GET, target: PAGE, ..request.clone() };
    let received = ReceivedLine { method: &request.method, target: request.target };
    let head = RequestHead { received: Some(received), ..replaced.head() };
    let verdict = exchange.begin_certificate_page(&head);
    assert!(exchange.take_certificate_page().is_none(), "only one page per request");
    (exchange, verdict)
}

fn status(plane: &Plane, request: &Request) -> u16 {
    match page(plane, request) {
        (_, Verdict::Answer(answer)) => answer.status.as_u16(),
        (_, verdict) => panic!("{verdict:?}"),
    }
}

fn variable(variable: Variable) -> Template {
    Template { pieces: vec![TemplatePiece::Variable(variable)] }
}

#[test]
fn the_page_has_the_rule_and_the_endpoint_of_its_path() {
    let plane = page_with(Policies::default());
    let (mut exchange, verdict) = page(&plane, &secret().with("x-request-id", "i"));
    assert!(matches!(verdict, Verdict::Forward), "{verdict:?}");
    assert_eq!(last(&exchange.pick().unwrap()), 2);
    exchange.upstream_response(http::StatusCode::OK, &http::HeaderMap::new(), true);
    exchange.end(outcome(200));
    let lines = plane.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("\"POST /secret?a=1 HTTP/1.1\" 200 5") && lines[0].contains("[shop-help-80]"));
    let metrics = plane.metrics();
    assert!(metrics.contains("method=\"GET\"") && !metrics.contains("method=\"POST\""), "{metrics}");
}

#[test]
fn only_a_missing_or_invalid_certificate_is_replaced_by_the_page() {
    let mut plane = page_with(Policies::default());
    let (ours, theirs) = (authority(), authority());
    trust(&mut plane, &ours);
    let begin = |plane: &Plane, connection: &Arc<ConnectionInfo>| {
        let (mut exchange, verdict) =
            Exchange::begin(PublishedSnapshot::take(&plane.state), connection, &secret().head());
        (matches!(verdict, Verdict::Forward), exchange.take_certificate_page().is_some())
    };
    let connection = |issuer| connection_with(Some(verification()), Some(&client(issuer, "ann")));
    assert_eq!(begin(&plane, &connection(&ours)), (true, false), "an acceptable one");
    assert_eq!(begin(&plane, &connection(&theirs)), (false, true), "an invalid one");
    assert_eq!(begin(&plane, &connection_with(Some(verification()), None)), (false, true), "none");
    assert_eq!(begin(&plane, &super::fixture::connection(false)), (false, true), "no TLS");
    assert_eq!(begin(&plane, &connection_with(None, None)), (false, false), "misdirected");
    let subject = Some("CN=bob$".into());
    verify(&mut plane, ClientCertificates { subject, ..policy_with_page() }, vec![rule("/", forward("web"))]);
    assert_eq!(begin(&plane, &connection(&ours)), (false, false), "a subject that is not accepted");
    let key = verification().authorities;
    plane.apply(Delta { resources: vec![Change::Remove(key)], ..Delta::default() });
    assert_eq!(begin(&plane, &connection(&ours)), (false, false), "closed");
}

#[test]
fn a_page_without_a_rule_is_answered_by_the_default_backend() {
    let own = Policies { deny: Some(Deny { status: 503, reason: "test".into() }), ..Policies::default() };
    let rules = vec![Rule { policies: Arc::new(own), ..rule("/secret", forward("web")) }];
    assert_eq!(status(&plane(rules), &secret()), 404);
}

#[test]
fn checks_of_the_page_are_those_of_its_rule() {
    let deny = Some(Deny { status: 503, reason: "test".into() });
    assert_eq!(status(&page_with(Policies { deny, ..Policies::default() }), &secret()), 503);
    let others: Arc<[Network]> = [Network { address: "203.0.113.1".parse().unwrap(), prefix: 32 }].into();
    let sources = Sources { allow: Some(others), deny: None };
    let closed = Policies { sources, ..Policies::default() };
    assert_eq!(status(&page_with(closed.clone()), &secret()), 403);
    // Those of the client's path do not apply.
    let rules = vec![
        rule("/denied", forward("help")),
        Rule { policies: Arc::new(closed), ..rule("/secret", forward("web")) },
    ];
    assert!(matches!(page(&plane(rules), &secret()).1, Verdict::Forward));
}

#[test]
fn an_authorisation_service_is_asked_for_the_page() {
    let authorisation = Authorisation::Own(Arc::new(external_auth(variable(Variable::RequestUri))));
    let plane = page_with(Policies { authorisation, ..Policies::default() });
    let (_, verdict) = page(&plane, &secret());
    let Verdict::Ask(Question::Call(subrequest)) = verdict else { panic!("{verdict:?}") };
    assert_eq!(subrequest.target.as_str(), PAGE, "$request_uri decides nothing");
    let value = |name: &str| {
        let field = subrequest.fields.iter().find(|(field, _)| field == name);
        field.map(|(_, value)| value.to_str().unwrap())
    };
    assert_eq!(value("x-original-method"), Some("GET"));
    assert_eq!(value("x-original-url"), Some("https://a.example/denied?why=certificate"));
}

#[test]
fn fields_for_the_endpoint_have_the_path_of_the_client() {
    let mut plane = page_with(Policies::default());
    let key =
        ResourceKey { kind: ResourceKind::Headers, name: sluice_config::NamespacedName::new("shop", "h") };
    let fields = vec![
        ("x-uri".into(), variable(Variable::RequestUri)),
        ("x-page".into(), variable(Variable::Uri)),
        ("x-verb".into(), variable(Variable::RequestMethod)),
    ];
    let put = Change::Put(key.clone(), Arc::new(Resource::Headers(HeaderSet { fields })));
    plane.apply(Delta { resources: vec![put], ..Delta::default() });
    plane.tune(|settings| {
        settings.request_headers = Some(key);
        settings.adds_original_uri = true;
    });
    let (exchange, _) = page(&plane, &secret().with("ssl-client-verify", "SUCCESS"));
    let mut head = http::Request::new(());
    head.headers_mut().insert("ssl-client-verify", http::HeaderValue::from_static("SUCCESS"));
    exchange.upstream_request(&mut head);
    let fields = head.headers();
    for (name, value) in [
        ("x-uri", "/secret?a=1"),
        ("x-original-uri", "/secret?a=1"),
        ("x-page", "/denied"),
        ("x-verb", "GET"),
        ("ssl-client-verify", "NONE"),
    ] {
        assert_eq!(fields[name], value, "{name}");
    }
}

#[test]
fn a_rewrite_of_the_page_uses_the_path_of_the_page() {
    let rewrite = Rewrite {
        pattern: None,
        path: vec![RewritePart::Text("/pages".into()), RewritePart::Variable(Variable::RequestUri)],
        query: RewriteQuery::Keep,
        redirects: false,
        forwarded_prefix: None,
    };
    let plane = page_with(Policies { rewrite: Some(rewrite), ..Policies::default() });
    let (exchange, _) = page(&plane, &secret());
    let target = exchange.outgoing.as_ref().unwrap().target().to_owned();
    assert!(target.starts_with("/pages/denied") && !target.contains("secret"), "{target}");
}

#[test]
fn a_program_of_the_page_does_not_lead_to_another_path() {
    let rewrite = Rewrite {
        pattern: None,
        path: vec![RewritePart::Text("/secret".into())],
        query: RewriteQuery::Keep,
        redirects: false,
        forwarded_prefix: None,
    };
    let program = vec![Instruction::Rewrite { rewrite, then: AfterRewrite::Last }];
    let location = Location { program, ..Location::default() };
    let directives = Some(Arc::new(Directives { location, ..Directives::default() }));
    assert_eq!(status(&page_with(Policies { directives, ..Policies::default() }), &secret()), 400);
}

#[test]
fn a_reader_of_live_requests_sees_the_refusal_and_the_page() {
    let plane = page_with(Policies::default());
    let mut reader = plane.state.taps.open(RequestFilter::read("").unwrap(), true).unwrap();
    let (mut exchange, _) = page(&plane, &secret());
    exchange.pick().unwrap();
    exchange.upstream_request(&mut http::Request::new(()));
    exchange.end(outcome(200));
    let request = reader.requests.try_recv().unwrap();
    let (steps, rule) = (request.steps.as_ref().unwrap(), request.rule.as_ref().unwrap());
    assert_eq!((&*request.target, &*rule.path), ("/secret?a=1", "/denied"));
    assert_eq!(steps.page.as_deref(), Some(PAGE));
    assert_eq!(steps.sent.as_ref().map(|sent| &*sent.target), Some(PAGE));
    let results: Vec<_> = steps.checks.iter().map(|check| (ORDER[check.stage], check.result)).collect();
    assert_eq!(results[1], (PipelineStage::ClientCertificate, CheckResult::Refused));
    assert_eq!(results[2], (PipelineStage::Denied, CheckResult::Passed));
    assert_eq!(results.last(), Some(&(PipelineStage::Loop, CheckResult::Passed)));
}

#[test]
fn a_request_at_the_step_limit_gets_no_page() {
    let plane = page_with(Policies::default());
    let mut exchange = refused(&plane, &secret());
    exchange.take_certificate_page().unwrap();
    *exchange.steps.get_mut() = 0;
    let head = Request::get("a.example", PAGE);
    let Verdict::Answer(answer) = exchange.begin_certificate_page(&head.head()) else { panic!() };
    assert_eq!(answer.status, 500);
}
