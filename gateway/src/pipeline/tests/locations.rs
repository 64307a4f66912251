//! The location whose directives apply: for answers before its program runs, after `rewrite`, and
//! to requests of the gateway's own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use sluice_config::directives::{
    AfterRewrite, Condition, FieldChange, FieldOperation, Instruction, ResponseChange, Scope, Statuses,
};
use sluice_config::{
    AllowedOrigins, AuthCache, Authorisation, Balance, Bodies, Cors, Directives, ExternalAuth, Location,
    Policies, Rewrite, RewritePart, RewriteQuery, Rule, Template, TemplatePiece, Variable,
};

use super::fixture::*;
use crate::pipeline::{Answer, Originator, Question, Reply, Subrequest, SubrequestResponse, Verdict};

fn variable(variable: Variable) -> Template {
    Template { pieces: vec![TemplatePiece::Variable(variable)] }
}

fn field_of_request(name: &str) -> Template {
    variable(Variable::Field(name.into()))
}

fn change(name: &str, operation: FieldOperation) -> FieldChange {
    FieldChange { name: name.into(), operation }
}

fn set(name: &str, value: Template) -> FieldChange {
    change(name, FieldOperation::Set(value))
}

fn always(name: &str, value: Template) -> ResponseChange {
    ResponseChange {
        change: set(name, value),
        is_continuation: false,
        statuses: Statuses::All,
        content_types: Vec::new(),
    }
}

/// A location whose program rewrites paths that match the expression to `path`.
fn rewriting(pattern: &str, path: &str, scope: Scope) -> Directives {
    let rewrite = Rewrite {
        pattern: Some(sluice_config::Expression::Plain(pattern.into())),
        path: vec![RewritePart::Text(path.into())],
        query: RewriteQuery::Keep,
        redirects: false,
        forwarded_prefix: None,
    };
    let program = vec![Instruction::Rewrite { rewrite, then: AfterRewrite::Last }];
    Directives {
        location: Location { program, scopes: vec![scope], ..Location::default() },
        ..Directives::default()
    }
}

fn with_input(input: Vec<FieldChange>) -> Scope {
    Scope { input, ..Scope::default() }
}

fn with_response(response: Vec<ResponseChange>) -> Scope {
    Scope { response, ..Scope::default() }
}

fn directives_of(directives: Directives) -> Arc<Policies> {
    Arc::new(Policies { directives: Some(directives.into()), ..Policies::default() })
}

fn question(verdict: Verdict) -> Subrequest {
    match verdict {
        Verdict::Ask(Question::Call(subrequest)) => *subrequest,
        other => panic!("{other:?}"),
    }
}

fn reply(status: u16, name: &'static str, value: &'static str) -> Reply {
    let fields =
        HeaderMap::from_iter([(http::HeaderName::from_static(name), HeaderValue::from_static(value))]);
    let status = StatusCode::from_u16(status).unwrap();
    Reply::Response(Box::new(SubrequestResponse { status, fields, body: Bytes::new(), whole: true }))
}

fn values<'a>(answer: &'a Answer, names: [&str; 2]) -> [Option<&'a str>; 2] {
    names.map(|name| field(answer, name))
}

#[test]
fn a_rewrite_keeps_the_client_fields_that_the_first_location_changed() {
    let first = with_input(vec![
        change("x-i1", FieldOperation::Remove),
        set("x-i2", field_of_request("x-i1")),
        set("x-i3", Template::plain("first")),
    ]);
    let second = Scope { input: vec![set("x-i3", Template::plain("second"))], ..Scope::default() };
    let second = Directives {
        location: Location { scopes: vec![second], ..Location::default() },
        ..Directives::default()
    };
    let mut plane = Plane::new();
    plane.pool("web", Balance::RoundRobin, &[1]);
    let rules = vec![
        Rule { policies: directives_of(rewriting("^/app", "/new", first)), ..rule("/app", forward("web")) },
        Rule { policies: directives_of(second), ..rule("/new", forward("web")) },
    ];
    assert_eq!(plane.host(exact("a.example"), false, rules), []);
    let sent = |target| {
        let request = Request::get("a.example", target).with("x-i1", "spoof");
        let mut exchange = plane.forward(&request);
        exchange.pick().unwrap();
        let fields = request.upstream_fields(&exchange);
        ["x-i1", "x-i2", "x-i3"].map(|name| fields.get(name).map(|value| value.to_str().unwrap().to_owned()))
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(sent("/app"), [None, text("spoof"), text("second")]);
    assert_eq!(sent("/new"), [text("spoof"), None, text("second")]);
}

#[test]
fn preflights_and_413_carry_the_fields_of_the_location() {
    let fields = with_response(vec![
        always("x-fixed", Template::plain("1")),
        always("x-filled", variable(Variable::RequestMethod)),
    ]);
    // With a program of the server, which is in effect until the location is chosen.
    let server = Location {
        program: vec![Instruction::Set { variable: "a".into(), value: Template::plain("1") }],
        ..Location::default()
    };
    let cors = Cors {
        origins: AllowedOrigins::Any,
        credentials: false,
        methods: "GET".into(),
        headers: "X".into(),
        expose: None,
        max_age: 1,
    };
    for server in [Location::default(), server] {
        let location = Location { scopes: vec![fields.clone()], ..Location::default() };
        let directives = Directives { server, location, ..Directives::default() };
        let policies = Policies {
            directives: Some(directives.into()),
            cors: Some(Arc::new(cors.clone())),
            bodies: Bodies { limit: Some(3), ..Bodies::default() },
            ..Policies::default()
        };
        let plane = Plane::with_policies(Balance::RoundRobin, &[1], policies);
        let request = Request::get("a.example", "/").with("origin", "https://b.example");
        let preflight = plane.answer(&request.clone().method(Method::OPTIONS));
        let names = ["x-fixed", "x-filled"];
        assert_eq!(
            (preflight.status.as_u16(), values(&preflight, names)),
            (204, [Some("1"), Some("OPTIONS")])
        );
        let large = plane.answer(&request.method(Method::POST).with("content-length", "4"));
        assert_eq!((large.status.as_u16(), values(&large, names)), (413, [Some("1"), Some("POST")]));
    }
}

#[test]
fn too_many_locations_keep_the_fields_of_the_last_one() {
    let fields = with_response(vec![
        always("x-fixed", Template::plain("1")),
        always("x-filled", variable(Variable::RequestMethod)),
    ]);
    let directives = Some(rewriting("^/", "/again", fields).into());
    let policies = Policies { directives, ..Policies::default() };
    let plane = Plane::with_policies(Balance::RoundRobin, &[1], policies);
    let answer = plane.answer(&Request::get("a.example", "/"));
    let names = ["x-fixed", "x-filled"];
    assert_eq!((answer.status.as_u16(), values(&answer, names)), (500, [Some("1"), Some("GET")]));
}

/// A plane whose only rule has these directives and this authorisation service.
fn authorising(location: Location, auth: ExternalAuth) -> Plane {
    let mut plane = Plane::new();
    plane.pool("web", Balance::RoundRobin, &[1]);
    plane.pool("auth", Balance::RoundRobin, &[9]);
    let policies = Policies {
        directives: Some(Directives { location, ..Directives::default() }.into()),
        authorisation: Authorisation::Own(Arc::new(auth)),
        ..Policies::default()
    };
    let rule = Rule { policies: Arc::new(policies), ..rule("/", forward("web")) };
    assert_eq!(plane.host(exact("a.example"), false, vec![rule]), []);
    plane
}

#[test]
fn the_authorisation_service_gets_the_changed_client_fields() {
    let credentials = set("authorization", variable(Variable::Cookie("tok".into())));
    let input = vec![credentials, change("x-spoof", FieldOperation::Remove)];
    let location = Location { scopes: vec![with_input(input)], ..Location::default() };
    let key = field_of_request("authorization");
    let cache = AuthCache { key, valid: Some(vec![(vec![200], Duration::from_secs(60))]) };
    let auth = ExternalAuth { cache: Some(cache), ..external_auth(Template::plain("/check")) };
    let plane = authorising(location, auth);
    let client = |cookie: &str| Request::get("a.example", "/").with("cookie", cookie).with("x-spoof", "1");
    let ann = client("tok=ann");
    let (mut exchange, verdict) = plane.begin(&ann);
    let asked = question(verdict);
    let of =
        |name: &str| asked.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    assert_eq!((of("authorization"), of("x-spoof")), (Some(HeaderValue::from_static("ann")), None));
    exchange.resume(reply(200, "x-user", "ann"), &ann.head());
    plane.forward(&ann);
    // The cached reply is not one for a client whose credentials come from another cookie.
    question(plane.begin(&client("tok=eve")).1);
}

#[test]
fn auth_request_set_has_the_fields_of_a_refusal() {
    let user = || variable(Variable::Authorised("x-user".into()));
    let location =
        Location { scopes: vec![with_response(vec![always("x-m", user())])], ..Location::default() };
    let auth = ExternalAuth {
        kept: vec!["x-user".into()],
        response_headers: vec!["X-Secret".into()],
        ..external_auth(Template::plain("/check"))
    };
    let plane = authorising(location, auth);
    let request = Request::get("a.example", "/");
    for status in [401, 403] {
        let (mut exchange, _) = plane.begin(&request);
        let Verdict::Answer(answer) = exchange.resume(reply(status, "x-user", "u"), &request.head()) else {
            panic!("{status}")
        };
        assert_eq!((answer.status.as_u16(), field(&answer, "x-m")), (status, Some("u")));
    }
}

#[test]
fn fields_for_the_endpoint_have_the_rewritten_uri() {
    let group = |number: &str| variable(Variable::Group(number.into()));
    let condition = Condition::Match {
        value: variable(Variable::Uri),
        expression: sluice_config::Expression::Plain("^/(app)".into()),
        negated: false,
    };
    let location = Location {
        program: vec![
            Instruction::If { condition, scope: None, then: Vec::new() },
            Instruction::Set { variable: "before".into(), value: variable(Variable::Uri) },
        ],
        request: vec![
            set("x-uri", variable(Variable::Uri)),
            set("x-args", variable(Variable::Args)),
            set("x-before", variable(Variable::Assigned("before".into()))),
            set("x-group", group("1")),
        ],
        ..Location::default()
    };
    let rewrite = Rewrite {
        pattern: Some(sluice_config::Expression::Plain("(?i)/app/(.*)".into())),
        path: vec![RewritePart::Text("/r/".into()), RewritePart::Group(1)],
        query: RewriteQuery::Keep,
        redirects: false,
        forwarded_prefix: None,
    };
    let policies = Policies {
        directives: Some(Directives { location, ..Directives::default() }.into()),
        rewrite: Some(rewrite),
        ..Policies::default()
    };
    let plane = Plane::with_policies(Balance::RoundRobin, &[1], policies);
    let request = Request::get("a.example", "/app/x?q=1");
    let mut exchange = plane.forward(&request);
    exchange.pick().unwrap();
    let fields = request.upstream_fields(&exchange);
    for (name, value) in [("x-uri", "/r/x"), ("x-args", "q=1"), ("x-before", "/app/x"), ("x-group", "x")] {
        assert_eq!(fields[name], value, "{name}");
    }
}
