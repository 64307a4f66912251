//! The answer or backend for a request.

use std::sync::Arc;

use http::{Method, StatusCode};
use sluice_config::{
    Action, Backend, Balance, Certificate, CertificateId, Change, Code, Delta, Deny, ExtendedRegex,
    HostPattern, HttpsRedirect, Network, Policies, PrivateKey, Redirect, RedirectPath, Refusal, Report,
    Rewrite, RewritePart, RewriteQuery, Rule, Subject, Variable,
};

use super::fixture::*;
use crate::pipeline::Originator;
use crate::pipeline::stages::{ORDER, StageInput};
use crate::state::apply::apply;
use crate::tls::Certificates;

fn title(answer: &crate::pipeline::Answer) -> String {
    let text = std::str::from_utf8(&answer.body).unwrap();
    let (_, rest) = text.split_once("<title>").unwrap();
    rest.split_once("</title>").unwrap().0.to_owned()
}

#[test]
fn a_host_without_a_rule_gets_the_built_in_404() {
    let plane = Plane::simple(&[1]);
    for request in [Request::get("b.example", "/"), Request::get("", "/x")] {
        let answer = plane.answer(&request);
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
        assert_eq!(title(&answer), "404 Not Found");
        assert_eq!(field(&answer, "server"), Some("sluice"));
        assert_eq!(field(&answer, "content-type"), Some("text/html"));
        assert!(!answer.close);
    }
}

#[test]
fn uri_keeps_bytes_that_are_not_utf8() {
    let rewrite = Rewrite {
        pattern: None,
        path: vec![RewritePart::Text("/x".into()), RewritePart::Variable(Variable::Uri)],
        query: RewriteQuery::Keep,
        redirects: false,
        forwarded_prefix: None,
    };
    let policies = Policies { rewrite: Some(rewrite), ..Policies::default() };
    let plane = Plane::with_policies(Balance::RoundRobin, &[1], policies);
    for (sent, received) in [
        ("/a%FFb", "/x/a%FFb"),
        ("/./%fc?%fc", "/x/%FC?%fc"),
        ("/%EF%BF%BD", "/x/%EF%BF%BD"),
        ("/caf%C3%A9", "/x/caf%C3%A9"),
    ] {
        let exchange = plane.forward(&Request::get("a.example", sent));
        assert_eq!(exchange.outgoing.as_ref().unwrap().target(), received, "{sent}");
    }
}

#[test]
fn skipped_stages_have_no_effect_on_plain_rules() {
    let (plane, request) = (Plane::simple(&[1]), Request::get("a.example", "/"));
    let mut exchange = plane.forward(&request);
    let (route, snapshot) = (exchange.route.clone().unwrap(), exchange.snapshot.clone());
    assert!(route.is_plain() && snapshot.compiled_settings.ask_nothing());
    let input =
        StageInput { head: &request.head(), path: "/", compiled_settings: &snapshot.compiled_settings };
    for stage in ORDER.into_iter().filter(|stage| !stage.is_for_all_rules()) {
        assert!(exchange.run_stage(stage, &route, &input).is_continue(), "{stage:?}");
    }
}

#[test]
fn healthz_of_an_unknown_host_is_200_beside_catch_all_rules() {
    let mut plane = Plane::simple(&[1]);
    let answer = plane.answer(&Request::get("10.0.0.1", "/healthz"));
    assert_eq!((answer.status, answer.body.len()), (StatusCode::OK, 0));
    plane.forward(&Request::get("a.example", "/healthz"));
    plane.host(HostPattern::Any, false, vec![rule("/app", forward("web"))]);
    assert_eq!(plane.answer(&Request::get("10.0.0.1", "/healthz")).status, StatusCode::OK);
    plane.host(HostPattern::Any, false, vec![rule("/", forward("web"))]);
    assert_eq!(plane.answer(&Request::get("10.0.0.1", "/healthz")).status, StatusCode::OK);
    // A prefix location in ingress-nginx.
    assert_eq!(plane.answer(&Request::get("10.0.0.1", "/healthz/x")).status, StatusCode::OK);
    plane.forward(&Request::get("10.0.0.1", "/health"));
    plane.host(HostPattern::Any, false, vec![rule("/healthz", forward("web")), rule("/", forward("web"))]);
    plane.forward(&Request::get("10.0.0.1", "/healthz"));
}

#[test]
fn a_health_path_of_the_operator_replaces_the_default() {
    let mut plane = Plane::new();
    plane.pool("web", Balance::RoundRobin, &[1]);
    plane.host(HostPattern::Any, false, vec![rule("/", forward("web"))]);
    plane.state.set_health_path("/nginx".to_owned());
    assert_eq!(plane.answer(&Request::get("10.0.0.1", "/nginx")).status, StatusCode::OK);
    assert_eq!(plane.answer(&Request::get("10.0.0.1", "/nginx_status")).status, StatusCode::FORBIDDEN);
    plane.forward(&Request::get("10.0.0.1", "/healthz"));
    let plane = Plane::new();
    plane.state.set_health_path("/".to_owned());
    assert_eq!(plane.answer(&Request::get("10.0.0.1", "/")).status, StatusCode::NOT_FOUND);
}

#[test]
fn the_status_page_of_an_unknown_host_is_for_its_readers() {
    let mut plane = Plane::new();
    plane.pool("web", Balance::RoundRobin, &[1]);
    plane.host(HostPattern::Any, false, vec![rule("/", forward("web"))]);
    let status = |plane: &Plane| plane.answer(&Request::get("10.0.0.1", "/nginx_status"));
    assert_eq!(status(&plane).status, StatusCode::FORBIDDEN, "only 127.0.0.1 and ::1 by default");
    plane.tune(|settings| {
        settings.status_readers[0] = [Network { address: [192, 0, 2, 0].into(), prefix: 24 }].into();
    });
    let page = status(&plane);
    assert_eq!(page.status, StatusCode::OK);
    let text = String::from_utf8(page.body.to_vec()).unwrap();
    let lines: Vec<&str> = text.split('\n').collect();
    let [active, heading, totals, states, ""] = lines[..] else { panic!("{text}") };
    assert!(active.starts_with("Active connections: ") && active.ends_with(' '));
    assert_eq!(heading, "server accepts handled requests");
    assert_eq!(totals.split(' ').filter(|word| word.parse::<u64>().is_ok()).count(), 3, "{totals:?}");
    assert!(states.starts_with("Reading: 0 Writing: ") && states.contains(" Waiting: "));
    let mut post = Request::get("10.0.0.1", "/nginx_status");
    post.method = Method::POST;
    assert_eq!(plane.answer(&post).status, StatusCode::METHOD_NOT_ALLOWED);
    plane.host(exact("a.example"), false, vec![rule("/", forward("web"))]);
    plane.forward(&Request::get("a.example", "/nginx_status"));
}

#[test]
fn the_default_backend_takes_what_no_rule_takes() {
    let mut plane = Plane::new();
    plane.pool("web", Balance::RoundRobin, &[1]);
    plane.pool("fallback", Balance::RoundRobin, &[9]);
    let to_default = Action::Forward(vec![weighted(1, Backend::Default)]);
    plane.host(exact("a.example"), false, vec![rule("/app", forward("web")), rule("/other", to_default)]);
    assert_eq!(plane.answer(&Request::get("a.example", "/other")).status, StatusCode::NOT_FOUND);
    plane.tune(|settings| settings.default_backend = Some((pool_key("fallback"), service("fallback"))));
    for (authority, target) in [("a.example", "/"), ("a.example", "/other"), ("b.example", "/x")] {
        let mut exchange = plane.forward(&Request::get(authority, target));
        assert_eq!(last(&exchange.pick().unwrap()), 9, "{authority}{target}");
    }
    let mut exchange = plane.forward(&Request::get("a.example", "/app"));
    assert_eq!(last(&exchange.pick().unwrap()), 1);
    assert_eq!(plane.answer(&Request::get("b.example", "/healthz")).status, StatusCode::OK);
}

#[test]
fn a_default_backend_with_a_later_pool_is_used() {
    let mut plane = Plane::new();
    plane.tune(|settings| settings.default_backend = Some((pool_key("late"), service("late"))));
    assert_eq!(plane.answer(&Request::get("b.example", "/")).status, StatusCode::NOT_FOUND);
    plane.pool("late", Balance::RoundRobin, &[3]);
    let mut exchange = plane.forward(&Request::get("b.example", "/"));
    assert_eq!(last(&exchange.pick().unwrap()), 3);
    plane.apply(Delta { pools: vec![Change::Remove(pool_key("late"))], ..Delta::default() });
    assert_eq!(plane.answer(&Request::get("b.example", "/")).status, StatusCode::NOT_FOUND);
}

#[test]
fn the_host_ignores_case_and_port_and_the_path_is_normalised() {
    let mut plane = Plane::new();
    plane.pool("web", Balance::RoundRobin, &[1]);
    plane.host(exact("a.example"), false, vec![rule("/app", forward("web"))]);
    for target in ["/app", "/app/x?y=1", "/%61pp", "//app", "/x/../app"] {
        plane.forward(&Request::get("A.Example:8080", target));
    }
    for target in ["/application", "/app/../x"] {
        assert_eq!(plane.answer(&Request::get("a.example", target)).status, StatusCode::NOT_FOUND);
    }
    for target in ["/%zz", "/../x", "*"] {
        let answer = plane.answer(&Request::get("a.example", target));
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{target}");
    }
}

#[test]
fn no_endpoints_is_503_and_invalid_backends_keep_their_status() {
    let mut plane = Plane::simple(&[]);
    let mut exchange = plane.forward(&Request::get("a.example", "/"));
    let answer = exchange.pick().unwrap_err();
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(title(&answer), "503 Service Temporarily Unavailable");

    let invalid = |status| Backend::Invalid { status, service: None, reason: "gone".into() };
    let rules = vec![
        rule("/503", Action::Forward(vec![weighted(1, invalid(503))])),
        rule("/500", Action::Forward(vec![weighted(1, invalid(500))])),
        rule("/none", Action::Forward(Vec::new())),
        rule("/zero", Action::Forward(vec![weighted(0, backend("web")), weighted(0, backend("web"))])),
        rule("/fixed", Action::Answer(403)),
    ];
    plane.host(exact("a.example"), false, rules);
    for (target, status) in [("/503", 503), ("/500", 500), ("/none", 500), ("/zero", 500), ("/fixed", 403)] {
        assert_eq!(plane.answer(&Request::get("a.example", target)).status, status, "{target}");
    }
}

#[test]
fn an_invalid_backend_keeps_its_share() {
    let mut plane = Plane::simple(&[1]);
    let invalid = Backend::Invalid { status: 500, service: None, reason: "gone".into() };
    let split = Action::Forward(vec![weighted(3, backend("web")), weighted(1, invalid)]);
    plane.host(exact("a.example"), false, vec![rule("/", split)]);
    let request = Request::get("a.example", "/");
    let answered =
        (0..4000).filter(|_| matches!(plane.begin(&request).1, crate::pipeline::Verdict::Answer(_))).count();
    // Six standard deviations of 4,000 draws with chance 1/4 are 164.
    assert!((836..=1164).contains(&answered), "{answered}");
}

#[test]
fn a_denied_rule_is_closed_before_any_redirect() {
    let mut plane = Plane::new();
    let deny = Some(Deny { status: 503, reason: "Secret shop/auth is missing".into() });
    let policies = Arc::new(Policies {
        deny,
        https_redirect: HttpsRedirect { ssl: None, force: Some(true) },
        ..Policies::default()
    });
    let slash = slash_redirect();
    plane.host(exact("a.example"), true, vec![Rule { policies, ..rule("/", slash) }]);
    let answer = plane.answer(&Request::get("a.example", "/x"));
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(field(&answer, "location").is_none());
    assert!(!std::str::from_utf8(&answer.body).unwrap().contains("Secret"));
}

fn slash_redirect() -> Action {
    Action::Redirect(Redirect {
        status: 301,
        scheme: None,
        host: None,
        port: None,
        path: RedirectPath::AppendSlash,
    })
}

#[test]
fn the_slash_comes_before_https() {
    let mut plane = Plane::new();
    plane.host(exact("a.example"), true, vec![rule("/foo", slash_redirect())]);
    let answer = plane.answer(&Request::get("a.example:8080", "/foo?x=1"));
    assert_eq!(answer.status, StatusCode::MOVED_PERMANENTLY);
    assert_eq!(field(&answer, "location"), Some("http://a.example/foo/?x=1"));
    let answer = plane.answer(&Request::get("a.example", "/foo").https());
    assert_eq!(field(&answer, "location"), Some("https://a.example/foo/"));
    assert_eq!(field(&answer, "strict-transport-security"), Some("max-age=31536000; includeSubDomains"));
}

#[test]
fn an_appended_slash_does_not_redirect_to_a_host_in_the_path() {
    let mut plane = Plane::new();
    plane.host(exact("a.example"), false, vec![rule("/app", slash_redirect())]);
    for relative in [true, false] {
        plane.tune(|settings| settings.relative_redirects = relative);
        let start = if relative { "" } else { "http://a.example" };
        for (target, query) in
            [("//evil.example/%2e%2e/app", ""), ("//app", ""), ("/%61pp?x=1", "?x=1"), ("/app?", "")]
        {
            let answer = plane.answer(&Request::get("a.example", target));
            assert_eq!(answer.status, StatusCode::MOVED_PERMANENTLY, "{target}");
            let location = format!("{start}/app/{query}");
            assert_eq!(field(&answer, "location"), Some(&*location), "{target}");
        }
    }
}

#[test]
fn a_host_with_tls_redirects_http() {
    let mut plane = Plane::simple(&[1]);
    let challenge = rule("/.well-known/acme-challenge/token", forward("web"));
    plane.host(exact("a.example"), true, vec![challenge, rule("/", forward("web"))]);
    for (target, location) in
        [("/", "https://a.example"), ("/x/?q=1", "https://a.example/x/?q=1"), ("/x/", "https://a.example/x")]
    {
        let answer = plane.answer(&Request::get("a.example:8080", target).method(Method::POST));
        assert_eq!(answer.status, StatusCode::PERMANENT_REDIRECT);
        assert_eq!(title(&answer), "308 Permanent Redirect");
        assert_eq!(field(&answer, "location"), Some(location));
        assert!(field(&answer, "strict-transport-security").is_none(), "HSTS over http");
    }
    plane.forward(&Request::get("a.example", "/").https());
    plane.forward(&Request::get("a.example", "/.well-known/acme-challenge/token"));
    let unclaimed = plane.answer(&Request::get("a.example", "/.well-known/acme-challenge/other"));
    assert_eq!(unclaimed.status, StatusCode::PERMANENT_REDIRECT, "the rule's path counts");

    let claimed = Request::get("a.example", "/").with("x-forwarded-proto", "https");
    assert_eq!(plane.answer(&claimed).status, StatusCode::PERMANENT_REDIRECT, "an untrusted claim");
    plane.tune(|settings| {
        settings.forwarded.use_headers = true;
        settings.http_redirect_code = 301;
    });
    plane.forward(&claimed);
    let elsewhere = Request::get("a.example", "/x").with("x-forwarded-host", "www.example:99");
    let answer = plane.answer(&elsewhere);
    assert_eq!(answer.status, StatusCode::MOVED_PERMANENTLY);
    assert_eq!(field(&answer, "location"), Some("https://www.example/x"));
    plane.tune(|settings| settings.ssl_redirect = false);
    plane.forward(&elsewhere);
}

#[test]
fn a_client_of_a_proxy_by_http_is_redirected_although_the_proxy_uses_tls() {
    let mut plane = Plane::simple(&[1]);
    plane.host(exact("a.example"), true, vec![rule("/", forward("web"))]);
    let request = || Request::get("a.example", "/x").https().with("x-forwarded-proto", "http");
    plane.forward(&request());
    plane.tune(|settings| settings.forwarded.use_headers = true);
    let answer = plane.answer(&request());
    assert_eq!(answer.status, StatusCode::PERMANENT_REDIRECT);
    assert_eq!(field(&answer, "location"), Some("https://a.example/x"));
    plane.forward(&Request::get("a.example", "/x").https().with("x-forwarded-proto", "https"));
    plane.forward(&Request::get("a.example", "/x").https());
}

#[test]
fn a_request_without_host_was_redirected_to_a_url_without_host() {
    let mut plane = Plane::simple(&[1]);
    let force = HttpsRedirect { force: Some(true), ..HttpsRedirect::default() };
    let policies = Policies { https_redirect: force, ..Policies::default() };
    let rules = vec![
        Rule { policies: policies.into(), ..rule("/secure", forward("web")) },
        rule("/slash", slash_redirect()),
        rule("/", forward("web")),
    ];
    assert_eq!(plane.host(HostPattern::Any, true, rules), []);
    for target in ["/secure", "/slash"] {
        let answer = plane.answer(&Request::get("", target));
        assert_eq!(answer.status, 400, "{target}: {answer:?}");
        assert_eq!(field(&answer, "location"), None);
        assert!(field(&plane.answer(&Request::get("b.example", target)), "location").is_some(), "{target}");
    }
    // A trusted proxy may send an invalid host.
    plane.tune(|settings| settings.forwarded.use_headers = true);
    for (named, location) in [("c.example", "https://c.example/secure"), ("c/d", "https://b.example/secure")]
    {
        let request = Request::get("b.example", "/secure").with("x-forwarded-host", named);
        assert_eq!(field(&plane.answer(&request), "location"), Some(location));
    }
}

#[test]
fn a_request_that_has_come_through_too_many_gateways_is_508() {
    let plane = Plane::simple(&[1]);
    let request = |hops: &str| Request::get("a.example", "/").with("x-sluice-hops", hops);
    plane.forward(&request("15"));
    for hops in ["16", "17", "300"] {
        assert_eq!(plane.answer(&request(hops)).status, StatusCode::LOOP_DETECTED, "{hops}");
    }
    let nowhere = Request::get("b.example", "/").with("x-sluice-hops", "99");
    assert_eq!(plane.answer(&nowhere).status, 404, "who gets no further has not come round");
}

#[test]
fn a_host_that_cannot_be_compiled_is_closed_completely() {
    let mut plane = Plane::simple(&[1]);
    plane.forward(&Request::get("a.example", "/"));
    let hash = plane.state.configuration.load().hash();
    let refused = plane.host(exact("a.example"), false, vec![rule("/", forward("unknown"))]);
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].subject, Subject::Host(host_key(exact("a.example"))));
    assert_eq!(refused[0].code, Code::HostRefused);
    assert!(refused[0].reason.contains("Ingress shop/web"), "{}", refused[0].reason);
    for path in ["/", "/x", "/a/b?c"] {
        assert_eq!(
            plane.answer(&Request::get("a.example", path)).status,
            StatusCode::SERVICE_UNAVAILABLE,
            "{path}"
        );
    }
    let closed = plane.state.configuration.load().hash();
    assert_ne!(closed, hash, "what is in force is another state, which introspection shows");
    let shown = plane.state.configuration.load().hosts.values().next().unwrap().clone();
    assert!(shown.rules[0].policies.deny.as_ref().unwrap().reason.contains("unknown"), "{shown:?}");
    let loaded = plane.metrics();
    assert!(loaded.lines().any(|line| {
        line.starts_with("nginx_ingress_controller_config_last_reload_successful{") && line.ends_with(" 0")
    }));
    plane.host(exact("a.example"), false, vec![rule("/", forward("web"))]);
    plane.forward(&Request::get("a.example", "/"));
    assert_ne!(plane.state.configuration.load().hash(), closed);
}

#[test]
fn removals_take_effect_and_the_hash_comes_back() {
    let mut plane = Plane::simple(&[1]);
    let hash = plane.state.configuration.load().hash();
    plane.host(exact("b.example"), false, vec![rule("/", forward("web"))]);
    plane.forward(&Request::get("b.example", "/"));
    let hosts = vec![Change::Remove(host_key(exact("b.example")))];
    plane.apply(Delta { hosts, ..Delta::default() });
    assert_eq!(plane.answer(&Request::get("b.example", "/")).status, StatusCode::NOT_FOUND);
    assert_eq!(plane.state.configuration.load().hash(), hash);
}

#[test]
fn the_delta_may_bring_pools_and_hosts_at_once() {
    let mut plane = Plane::simple(&[1]);
    let mut other = Plane::new();
    let configuration = plane.state.configuration.load_full();
    let hosts: Vec<_> =
        configuration.hosts.iter().map(|(key, host)| Change::Put(key.clone(), host.clone())).collect();
    let pool = sluice_config::Pool {
        key: pool_key("web"),
        protocol: sluice_config::UpstreamProtocol::Http,
        balance: Balance::RoundRobin,
        slow_start: None,
        health_check: None,
    };
    let pools = vec![Change::Put(pool.key.clone(), Arc::new(pool))];
    assert_eq!(other.apply(Delta { hosts: hosts.clone(), pools, ..Delta::default() }), []);
    other.forward(&Request::get("a.example", "/"));
    // And lose both at once: the host goes first.
    let hosts = hosts.iter().map(|change| Change::Remove(change.key().clone())).collect();
    let pools = vec![Change::Remove(pool_key("web"))];
    assert_eq!(plane.apply(Delta { hosts, pools, ..Delta::default() }), []);
    assert_eq!(plane.answer(&Request::get("a.example", "/")).status, StatusCode::NOT_FOUND);
}

#[test]
fn a_refused_certificate_is_not_in_force_and_is_reported() {
    struct Refuses;
    impl Certificates for Refuses {
        fn apply(&self, delta: &Delta) -> Vec<Refusal> {
            let refuse = |change: &Change<CertificateId, _>| Refusal {
                subject: Subject::Certificate(change.key().clone()),
                origin: None,
                code: Code::CertificateRefused,
                reason: "no key".into(),
            };
            delta.certificates.iter().map(refuse).collect()
        }

        fn remove(&self, _: &Delta) {}
    }

    let plane = Plane::new();
    let id = CertificateId::new("shop", "tls");
    let certificate = Certificate {
        id: id.clone(),
        chain: Vec::new(),
        key: PrivateKey::Pkcs8(Vec::new()),
        facts: Default::default(),
    };
    let put = Delta { certificates: vec![Change::Put(id, Arc::new(certificate))], ..Delta::default() };
    let Report::Applied { refused, .. } = apply(&plane.state, &put, &Refuses) else { panic!() };
    assert_eq!(refused[0].subject.to_string(), "certificate shop/tls");
    assert!(plane.state.configuration.load().certificates.is_empty());
    apply(&plane.state, &put, &NoCertificates);
    assert_eq!(plane.state.configuration.load().certificates.len(), 1);
}

#[test]
fn an_alias_that_reaches_the_step_limit_is_not_passed_over() {
    let alias = |pattern: &str, backtracks| {
        let (text, pattern) = (pattern.into(), pattern.into());
        let regex = ExtendedRegex { text, pattern, conditions: Vec::new(), backtracks };
        HostPattern::Regex(Arc::new(regex))
    };
    let mut plane = Plane::simple(&[1]);
    for pattern in [alias("^(?:a+)+(?<!b)$", true), alias("^a+[.]example$", false), HostPattern::Any] {
        assert_eq!(plane.host(pattern, false, vec![rule("/", forward("web"))]), []);
    }
    for authority in ["aa", "aa.example", "b.example"] {
        plane.forward(&Request::get(authority, "/"));
    }
    let worst = Request::get("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example", "/");
    assert_eq!(plane.answer(&worst).status, StatusCode::INTERNAL_SERVER_ERROR);
}
