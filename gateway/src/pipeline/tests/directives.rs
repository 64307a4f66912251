//! Directives of snippets: their place among the checks, and what they change.

use std::sync::Arc;

use http::Method;
use http::header::{HeaderMap, HeaderValue};
use sluice_config::access::Sources;
use sluice_config::directives::{
    AccessRule, AfterRewrite, Condition, FieldChange, FieldOperation, Instruction, LocationMatch,
    ResponseChange, Return, Scope, Statuses,
};
use sluice_config::{
    Action, Balance, ComputedVariable, Deny, Directives, Expression, ExtendedRegex, HostPattern, Location,
    LocationBlock, Moment, Network, Policies, Redirect, RedirectPath, Rewrite, RewritePart, RewriteQuery,
    Rule, Template, TemplatePiece, TextTable, ValueTable, Variable,
};

use super::fixture::*;
use crate::expression::{STEP_LIMIT, within_steps};
use crate::pipeline::{Exchange, Originator};

fn plane(directives: Directives, policies: Policies) -> Plane {
    let policies = Policies { directives: Some(directives.into()), ..policies };
    Plane::with_policies(Balance::RoundRobin, &[1], policies)
}

/// The directives of a rule whose location has this program, scopes and access rules.
fn own(program: Vec<Instruction>, scopes: Vec<Scope>, access: Vec<AccessRule>) -> Directives {
    let location = Location { program, scopes, access, ..Location::default() };
    Directives { location, ..Directives::default() }
}

fn variable(variable: Variable) -> Template {
    Template { pieces: vec![TemplatePiece::Variable(variable)] }
}

fn field(name: &str) -> Template {
    variable(Variable::Field(name.into()))
}

fn adds(name: &str, value: Template) -> ResponseChange {
    ResponseChange {
        change: FieldChange { name: name.into(), operation: FieldOperation::Append(value) },
        is_continuation: false,
        statuses: Statuses::Usual,
        content_types: Vec::new(),
    }
}

fn scope(response: Vec<ResponseChange>) -> Scope {
    Scope { response, ..Scope::default() }
}

fn page(status: u16) -> Instruction {
    Instruction::Return(Return::Page(status))
}

fn when(name: &str, scope: u16, then: Vec<Instruction>) -> Instruction {
    Instruction::If { condition: Condition::Truth(field(name)), scope: Some(scope), then }
}

const DENY_ALL: AccessRule = AccessRule { network: None, allows: false };

fn relayed(exchange: &mut Exchange) -> HeaderMap {
    let mut head = http::Response::builder().status(200).body(()).unwrap();
    head.headers_mut().append("x-of-endpoint", HeaderValue::from_static("1"));
    exchange.response(&mut head);
    head.into_parts().0.headers
}

#[test]
fn return_comes_before_address_lists_and_passwords() {
    let directives = own(vec![when("x-down", 1, vec![page(503)])], Vec::new(), vec![DENY_ALL]);
    let nobody: std::sync::Arc<[Network]> =
        [Network { address: "203.0.113.1".parse().unwrap(), prefix: 32 }].into();
    let sources = Sources { allow: Some(nobody), deny: None };
    let plane = plane(directives, Policies { sources, ..Policies::default() });
    let request = Request::get("a.example", "/");
    assert_eq!(plane.answer(&request).status, 403);
    assert_eq!(plane.answer(&request.with("x-down", "1")).status, 503);
}

#[test]
fn a_closed_rule_runs_no_program() {
    let deny = Deny { status: 503, reason: "test".into() };
    let scopes = vec![scope(vec![adds("x-a", Template::plain("1"))])];
    let text = Return::Text { status: 200, body: Template::plain("open") };
    let directives = own(vec![Instruction::Return(text)], scopes, Vec::new());
    let plane = plane(directives, Policies { deny: Some(deny), ..Policies::default() });
    let answer = plane.answer(&Request::get("a.example", "/"));
    assert_eq!((answer.status.as_u16(), field_of(&answer, "x-a")), (503, None));
}

fn field_of<'a>(answer: &'a crate::pipeline::Answer, name: &str) -> Option<&'a str> {
    super::fixture::field(answer, name)
}

#[test]
fn of_two_matching_ifs_the_last_one_changes_the_response() {
    let directives = own(
        vec![when("x-a", 1, Vec::new()), when("x-b", 2, Vec::new())],
        vec![
            scope(vec![adds("x-scope", Template::plain("own"))]),
            scope(vec![adds("x-scope", Template::plain("a"))]),
            scope(vec![adds("x-scope", field("x-b"))]),
        ],
        Vec::new(),
    );
    let plane = plane(directives, Policies::default());
    for (names, expected) in [(&[][..], "own"), (&["x-a"][..], "a"), (&["x-a", "x-b"][..], "from client")] {
        let request = names
            .iter()
            .fold(Request::get("a.example", "/"), |request, name| request.with(name, "from client"));
        let head = relayed(&mut plane.forward(&request));
        let values: Vec<_> = head.get_all("x-scope").iter().collect();
        assert_eq!(values, [expected]);
    }
}

#[test]
fn fields_for_the_endpoint_are_changed_around_those_of_the_gateway() {
    let change = |name: &str, operation| FieldChange { name: name.into(), operation };
    let mut directives = own(Vec::new(), Vec::new(), Vec::new());
    directives.location.scopes = vec![Scope {
        input: vec![change("x-client", FieldOperation::Remove)],
        hidden: vec!["x-of-endpoint".into()],
        ..Scope::default()
    }];
    directives.location.request = vec![
        change("x-real-ip", FieldOperation::Append(Template::plain("again"))),
        change("x-tenant", FieldOperation::Set(field("x-client"))),
        change("x-none", FieldOperation::Set(field("x-absent"))),
    ];
    let plane = plane(directives, Policies::default());
    let request = Request::get("a.example", "/").with("x-client", "blue").with("x-none", "forged");
    let mut exchange = plane.forward(&request);
    exchange.pick().unwrap();
    let mut head = http::Request::new(());
    *head.headers_mut() = request.headers.parsed().collect();
    exchange.upstream_request(&mut head);
    let head = head.into_parts().0.headers;
    let addresses: Vec<_> = head.get_all("x-real-ip").iter().collect();
    assert_eq!(addresses, ["192.0.2.7", "again"]);
    assert_eq!(head["x-tenant"], "blue");
    assert!(!head.contains_key("x-client") && !head.contains_key("x-none"));
    assert!(!relayed(&mut exchange).contains_key("x-of-endpoint"));
}

#[test]
fn allow_and_deny_decide_in_order() {
    let client = Network { address: "192.0.2.7".parse().unwrap(), prefix: 32 };
    let allow = AccessRule { network: Some(client), allows: true };
    let refused = plane(own(Vec::new(), Vec::new(), vec![DENY_ALL, allow]), Policies::default());
    assert_eq!(refused.answer(&Request::get("a.example", "/")).status, 403);
    let admitted = plane(own(Vec::new(), Vec::new(), vec![allow, DENY_ALL]), Policies::default());
    admitted.forward(&Request::get("a.example", "/"));
}

#[test]
fn a_block_of_the_server_answers_in_place_of_the_rule() {
    let block =
        |path: &str, location| LocationBlock { matches: LocationMatch::Prefix(path.into()), location };
    let text = Return::Text { status: 200, body: Template::plain("ok") };
    let directives = Directives {
        blocks: vec![
            block("/actuator", Location { access: vec![DENY_ALL], ..Location::default() }),
            block("/empty", Location::default()),
            block("/ping", Location { program: vec![Instruction::Return(text)], ..Location::default() }),
        ],
        ..Directives::default()
    };
    let plane = plane(directives, Policies::default());
    let get = |target| Request::get("a.example", target);
    for (request, status) in [
        (get("/actuator/env"), 403),
        (get("/%61ctuator"), 403),
        (get("/empty/x"), 404),
        (get("/empty").method(Method::PUT), 405),
        (get("/ping"), 200),
    ] {
        assert_eq!(plane.answer(&request).status, status, "{}", request.target);
    }
    plane.forward(&get("/other"));
}

#[test]
fn a_redirect_of_a_path_becomes_a_url_of_this_host() {
    let to = |location| {
        own(vec![Instruction::Return(Return::Redirect { status: 301, location })], Vec::new(), Vec::new())
    };
    let request = Request::get("a.example:8080", "/x?y=1");
    let plain = plane(to(Template::plain("/new")), Policies::default()).answer(&request);
    assert_eq!(field_of(&plain, "location"), Some("http://a.example/new"));
    let target = plane(to(variable(Variable::RequestUri)), Policies::default()).answer(&request);
    assert_eq!(field_of(&target, "location"), Some("http://a.example/x?y=1"));
    let injected = plane(to(variable(Variable::Uri)), Policies::default());
    let answer = injected.answer(&Request::get("a.example", "/x%0d%0aset-cookie:a"));
    assert_eq!((answer.status.as_u16(), field_of(&answer, "location")), (400, None));
}

/// The rule `/` of a host of expressions is a prefix here, and an expression in nginx.
#[test]
fn a_rule_among_expressions_precedes_blocks_with_a_prefix() {
    let block = |matches| LocationBlock { matches, location: Location::default() };
    let directives = Directives {
        blocks: vec![
            block(LocationMatch::Prefix("/app".into())),
            block(LocationMatch::FinalPrefix("/final".into())),
        ],
        is_expression: true,
        ..Directives::default()
    };
    let plane = plane(directives, Policies::default());
    plane.forward(&Request::get("a.example", "/app"));
    assert_eq!(plane.answer(&Request::get("a.example", "/final")).status, 404);
}

#[test]
fn the_program_of_the_server_comes_before_the_choice_of_a_block() {
    let directives = Directives {
        server: Location {
            program: vec![
                Instruction::Set { variable: "seen".into(), value: Template::plain("yes") },
                when("x-blocked", 0, vec![page(403)]),
            ],
            ..Location::default()
        },
        location: Location {
            scopes: vec![scope(vec![adds("x-seen", variable(Variable::Assigned("seen".into())))])],
            ..Location::default()
        },
        ..Directives::default()
    };
    let plane = plane(directives, Policies::default());
    let request = Request::get("a.example", "/");
    assert_eq!(relayed(&mut plane.forward(&request))["x-seen"], "yes");
    assert_eq!(plane.answer(&request.with("x-blocked", "1")).status, 403);
}

#[test]
fn a_slash_is_appended_to_the_path_that_a_rewrite_has_set() {
    let rewrite = Rewrite {
        pattern: None,
        path: vec![RewritePart::Text("/app".into())],
        query: RewriteQuery::Replace { query: vec![RewritePart::Text("z=2".into())], append: true },
        redirects: false,
        forwarded_prefix: None,
    };
    let program = vec![Instruction::Rewrite { rewrite, then: AfterRewrite::Last }];
    let directives = Some(own(program, Vec::new(), Vec::new()).into());
    let policies = Arc::new(Policies { directives, ..Policies::default() });
    let path = RedirectPath::AppendSlash;
    let slash = Action::Redirect(Redirect { status: 301, scheme: None, host: None, port: None, path });
    let mut plane = Plane::new();
    plane.pool("web", Balance::RoundRobin, &[1]);
    let rules = vec![rule("/app", slash), Rule { policies, ..rule("/old", forward("web")) }];
    assert_eq!(plane.host(exact("a.example"), false, rules), []);
    let answer = plane.answer(&Request::get("a.example", "/old?x=1"));
    assert_eq!(field_of(&answer, "location"), Some("http://a.example/app/?z=2&x=1"));
}

fn backtracking(pattern: &str) -> Arc<ExtendedRegex> {
    let (text, pattern) = (pattern.into(), pattern.into());
    Arc::new(ExtendedRegex { text, pattern, conditions: Vec::new(), backtracks: true })
}

#[test]
fn a_reached_step_limit_outlasts_the_choice_of_another_location() {
    let slow = Instruction::If {
        condition: Condition::Match {
            value: field("x-text"),
            expression: Expression::Extended(backtracking("^(?:a+)+(?<!b)$")),
            negated: false,
        },
        scope: Some(0),
        then: Vec::new(),
    };
    let rewrite = Rewrite {
        pattern: None,
        path: vec![RewritePart::Text("/b".into())],
        query: RewriteQuery::Keep,
        redirects: false,
        forwarded_prefix: None,
    };
    let program = vec![slow, Instruction::Rewrite { rewrite, then: AfterRewrite::Last }];
    let directives = own(program, Vec::new(), Vec::new());
    let policies = Arc::new(Policies { directives: Some(directives.into()), ..Policies::default() });
    let mut plane = Plane::new();
    plane.pool("web", Balance::RoundRobin, &[1]);
    let rules = vec![Rule { policies, ..rule("/a", forward("web")) }, rule("/b", forward("web"))];
    let alias = HostPattern::Regex(backtracking("^(?!b)c[.]example$"));
    assert_eq!(plane.host(alias, false, rules), []);
    let request = Request::get("c.example", "/a");
    plane.forward(&request.clone().with("x-text", "aab"));
    let worst = "a".repeat(1_000) + "!";
    assert_eq!(plane.answer(&request.with("x-text", &worst)).status, 500);
}

/// The class, and the copy of another field, in a response whose endpoint reports this kind.
fn classified(exchange: &mut Exchange, kind: &str) -> (Option<String>, Option<String>) {
    let mut head =
        http::Response::builder().status(200).header("x-kind", kind).header("x-other", "1").body(()).unwrap();
    exchange.response(&mut head);
    let text = |name: &str| head.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    (text("x-class"), text("x-copy"))
}

/// A plane whose responses have the class of the endpoint's `X-Kind` by a map, and a copy of its
/// `X-Other`.
fn classifying() -> Plane {
    let of_endpoint = |name: &str| variable(Variable::UpstreamField(name.into()));
    let table = TextTable {
        expressions: vec![(Expression::Extended(backtracking("^(?:a+)+(?<!b)$")), Template::plain("slow"))],
        default: Template::plain("other"),
        ..TextTable::default()
    };
    let class = ComputedVariable {
        name: "class".into(),
        source: of_endpoint("x-kind"),
        table: ValueTable::Texts(table),
    };
    let value = variable(Variable::Computed { name: "class".into(), known: Moment::Response });
    let scopes = vec![scope(vec![adds("x-class", value), adds("x-copy", of_endpoint("x-other"))])];
    let mut plane = plane(own(Vec::new(), scopes, Vec::new()), Policies::default());
    plane.tune(|settings| settings.computed = vec![class].into());
    plane
}

#[test]
fn values_of_response_fields_use_the_steps_of_their_own_request() {
    let plane = classifying();
    let mut exchange = plane.forward(&Request::get("a.example", "/"));
    within_steps(&mut { 0 }, || ());
    let [other, slow, copy] = ["other", "slow", "1"].map(|text| Some(text.to_owned()));
    assert_eq!(classified(&mut exchange, "aab"), (other, copy.clone()));
    let steps = *exchange.steps.get_mut();
    assert!(0 < steps && steps < STEP_LIMIT);
    let mut exchange = plane.forward(&Request::get("a.example", "/"));
    assert_eq!(classified(&mut exchange, "aaa"), (slow, copy));
}

#[test]
fn a_response_field_at_the_step_limit_is_omitted() {
    let plane = classifying();
    let mut exchange = plane.forward(&Request::get("a.example", "/"));
    let worst = "a".repeat(1_000) + "!";
    assert_eq!(classified(&mut exchange, &worst), (None, Some("1".to_owned())));
    assert_eq!(*exchange.steps.get_mut(), 0);
    let mut next = plane.forward(&Request::get("a.example", "/"));
    assert_eq!(classified(&mut next, "b").0.as_deref(), Some("other"));
}

#[test]
fn a_field_of_the_endpoint_in_two_values_was_doubled() {
    let value = || variable(Variable::UpstreamField("x-of-endpoint".into()));
    let scopes = vec![scope(vec![adds("x-a", value()), adds("x-b", value())])];
    let location = Location { scopes, ..Location::default() };
    let plane = plane(Directives { location, ..Directives::default() }, Policies::default());
    let fields = relayed(&mut plane.forward(&Request::get("a.example", "/")));
    assert_eq!(
        (&fields["x-a"], &fields["x-b"]),
        (&HeaderValue::from_static("1"), &HeaderValue::from_static("1"))
    );
}
