//! Closed routes keep their claims: no broader rule, wildcard or catch-all serves their requests.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use sluice_config::{Action, Backend, Code, HostTls, Rule};
use sluice_controller::Options;
use sluice_controller::store::Kind;

use crate::support::*;

const WEB: &str = "web:http (http)";

fn world() -> World {
    World::ready(Options::default())
}

/// An Ingress of class `nginx` with an annotation that rejects it.
fn rejected(name: &str, spec: Value) -> Value {
    with(name, &[("limit-rps", "many")], spec)
}

fn regex_to(host: &str, paths: &[&str]) -> Value {
    let mut spec = crate::support::paths(host, paths);
    for path in spec["rules"][0]["http"]["paths"].as_array_mut().unwrap() {
        path["pathType"] = "ImplementationSpecific".into();
    }
    spec
}

#[test]
fn a_rejected_ingress_does_not_leave_its_paths_to_a_broader_rule() {
    let mut world = world();
    world.put([
        ingress("shop", paths("shop.example", &["/"])),
        rejected("admin", paths("shop.example", &["/admin", "=/exact"])),
        with("snippet", &[("configuration-snippet", "deny all;")], paths("shop.example", &["/hidden"])),
        with(
            "both",
            &[("modsecurity-snippet", "SecRuleEngine On"), ("limit-rps", "many")],
            paths("shop.example", &["/private"]),
        ),
    ]);
    assert_eq!(
        world.rules("shop.example"),
        [
            format!("=/exact -> {WEB} denied 404"),
            format!("/private -> {WEB} denied 404"),
            format!("/hidden -> {WEB} denied 503"),
            format!("/admin -> {WEB} denied 404"),
            format!("/ -> {WEB}"),
        ]
    );
    let texts = world.texts();
    assert!(
        texts.iter().any(|text| text.contains("default/admin") && text.contains("answer 404")),
        "{texts:?}"
    );
}

#[test]
fn a_rejected_ingress_keeps_its_host_from_wildcard_and_catch_all() {
    let mut world = world();
    world.put([
        ingress("wild", paths("*.example", &["/"])),
        ingress("all", json!({"defaultBackend": backend("web", json!({"number": 80}))})),
        rejected("exact", paths("a.example", &["/x"])),
        rejected("bare", json!({"rules": [{"host": "b.example"}]})),
    ]);
    assert_eq!(
        world.rules("a.example"),
        [format!("/x -> {WEB} denied 404"), "/ -> default denied 404".into()]
    );
    assert_eq!(world.rules("b.example"), ["/ -> default denied 404"]);
    assert_eq!(world.rules("*.example"), [format!("/ -> {WEB}")]);
    assert_eq!(world.rules("_"), [format!("/ -> {WEB}")]);
}

#[test]
fn the_oldest_wins_even_if_rejected() {
    let mut world = world();
    world.put([
        created(rejected("old", paths("shop.example", &["/a"])), 1),
        created(ingress("good", paths("shop.example", &["/a", "/b"])), 2),
        created(rejected("young", paths("shop.example", &["/b", "/c"])), 3),
    ]);
    assert_eq!(
        world.rules("shop.example"),
        [
            format!("/c -> {WEB} denied 404"),
            format!("/b -> {WEB}"),
            format!("/a -> {WEB} denied 404"),
            "/ -> default".into(),
        ]
    );
    let texts = world.texts();
    let loser = texts.iter().find(|text| text.contains("default/good")).unwrap();
    assert!(loser.contains("default/old (spec.rules[0].http.paths[0]) and is closed"), "{loser}");
    world.delete(Kind::Ingress, "old");
    assert!(world.rules("shop.example").contains(&format!("/a -> {WEB}")));
}

#[test]
fn a_rejected_default_backend_is_closed_where_it_would_have_served() {
    let mut world = world();
    let default = json!({"defaultBackend": backend("web", json!({"number": 80}))});
    world.put([created(rejected("all", default.clone()), 1), created(ingress("later", default.clone()), 2)]);
    assert_eq!(world.rules("_"), [format!("/ -> {WEB} denied 404")]);

    // With --disable-catch-all, the rules of such an Ingress are closed; no Ingress owns the
    // catch-all.
    let mut world = World::ready(Options { disable_catch_all: true, ..Options::default() });
    let mut spec = paths("shop.example", &["/a"]);
    spec["defaultBackend"] = default["defaultBackend"].clone();
    world.put([ingress("shop", spec), ingress("all", default), ingress("wild", paths("*.example", &["/"]))]);
    assert_eq!(
        world.rules("shop.example"),
        [format!("/a -> {WEB} denied 404"), "/ -> default denied 404".into()]
    );
    assert!(world.host("_").is_none());
    assert_eq!(world.problems().len(), 2, "{:?}", world.texts());
}

#[test]
fn paths_that_are_meant_as_expressions_are_closed_as_such() {
    let mut world = world();
    let expressions = regex_to("shop.example", &["/admin(/|$)(.*)", "/look/(?C1)"]);
    world.put([
        ingress("shop", paths("shop.example", &["/", "/admin-of-others-and-longer"])),
        with("admin", &[("rewrite-target", "/$2"), ("modsecurity-snippet", "SecRuleEngine On")], expressions),
        created(rejected("plain", paths("shop.example", &["/old"])), 1),
    ]);
    assert_eq!(
        world.rules("shop.example"),
        [
            format!("/admin-of-others-and-longer -> {WEB}"),
            format!("~(?i)^/admin(/|$)(.*) -> {WEB} denied 503"),
            format!("/admin(/|$)(.*) -> {WEB} denied 503"),
            format!("/look/(?C1) -> {WEB} denied 503"),
            format!("~(?i)^/look/ -> {WEB} denied 503"),
            format!("~(?i)^/old -> {WEB} denied 404"),
            format!("/old -> {WEB} denied 404"),
            format!("/ -> {WEB}"),
        ]
    );
}

#[test]
fn an_expression_that_cannot_be_read_closes_no_longer_path_of_others() {
    let mut world = world();
    world.put([
        created(ingress("api", paths("shop.example", &["/", "/api"])), 1),
        created(with("spa", &[("use-regex", "true")], regex_to("shop.example", &["/(?C1).*"])), 2),
    ]);
    assert_eq!(
        world.rules("shop.example"),
        [format!("~(?i)^/api -> {WEB}"), format!("~(?i)^/ -> {WEB} denied 503"), format!("/ -> {WEB}"),]
    );
}

#[test]
fn unreadable_use_regex_or_www_redirect_has_no_effect() {
    let mut world = world();
    world.put([
        ingress("shop", paths("shop.example", &["/"])),
        with("admin", &[("use-regex", "yes")], regex_to("shop.example", &["/admin(/|$)(.*)"])),
        with("www", &[("from-to-www-redirect", "yes")], paths("other.example", &["/"])),
        with("plain", &[("use-regex", "false"), ("limit-rps", "many")], regex_to("plain.example", &["/x."])),
    ]);
    assert_eq!(world.rules("shop.example")[0], format!("/admin(/|$)(.*) -> {WEB}"));
    assert!(world.host("www.other.example").is_none());
    assert_eq!(world.rules("plain.example")[0], format!("/x. -> {WEB} denied 404"));
}

#[test]
fn closed_paths_keep_their_rank_among_expressions() {
    let mut world = world();
    let closed = rejected("closed", paths("shop.example", &["=/admin", "/x//admin", "/a+b"]));
    world.put([
        created(closed, 1),
        created(ingress("open", paths("shop.example", &["=/admin", "/x/admin", "/a+b", "/"])), 2),
        created(with("new", &[("rewrite-target", "/$1")], regex_to("shop.example", &["/new/(.*)"])), 3),
    ]);
    let rules = world.rules("shop.example");
    for path in ["/admin", "/x/admin", "/a+b", "~(?i)^/admin", "~(?i)^/x/admin", "~(?i)^/a+b"] {
        let rule = format!("{path} -> {WEB} denied 404");
        assert!(rules.contains(&rule), "{rule}: {rules:?}");
    }
    let open: Vec<&String> = rules.iter().filter(|rule| !rule.contains("denied")).collect();
    assert_eq!(open, [&format!("~(?i)^/new/(.*) -> {WEB}"), &format!("/ -> {WEB}")]);
}

#[test]
fn a_misspelled_client_certificate_secret_closes_the_whole_host() {
    let mut world = world();
    let guarded = with("guarded", &[("auth-tls-secret", "default/CA")], paths("shop.example", &["/admin"]));
    world.put([created(ingress("api", paths("shop.example", &["/api"])), 1), created(guarded, 2)]);
    assert_eq!(
        world.rules("shop.example"),
        [
            format!("/admin -> {WEB} denied 503"),
            format!("/api -> {WEB} denied 503"),
            "/ -> default denied 503".into(),
        ]
    );
}

#[test]
fn more_attempts_than_are_ever_made_are_served() {
    let mut world = world();
    world.put([with("shop", &[("proxy-next-upstream-tries", "5000")], paths("shop.example", &["/"]))]);
    assert_eq!(world.rules("shop.example"), [format!("/ -> {WEB}")]);
    assert_eq!(world.problems(), []);
}

#[test]
fn aliases_of_a_closed_ingress_are_closed_unless_owned_by_others() {
    let mut world = world();
    world.put([
        ingress("wild", paths("*.shop.example", &["/"])),
        with(
            "shop",
            &[
                ("server-alias", "admin.shop.example, own.shop.example, ~^bad$"),
                ("modsecurity-snippet", "SecRuleEngine On"),
            ],
            paths("shop.example", &["/"]),
        ),
        with(
            "www",
            &[("from-to-www-redirect", "true"), ("modsecurity-snippet", "SecRuleEngine On")],
            paths("other.example", &["/"]),
        ),
        ingress("own", paths("own.shop.example", &["/"])),
    ]);
    assert_eq!(world.rules("admin.shop.example"), ["/ -> default denied 503"]);
    assert_eq!(world.rules("own.shop.example"), [format!("/ -> {WEB}")]);
    assert_eq!(world.rules("www.other.example"), ["/ -> default denied 503"]);
    let lost = |world: &World| -> Vec<String> {
        let problems = world.problems();
        let lost = problems.iter().filter(|problem| problem.code == Code::AliasConflict);
        lost.map(|problem| format!("{} {}: {}", problem.object, problem.field, problem.message)).collect()
    };
    assert_eq!(
        lost(&world),
        ["Ingress default/shop metadata.annotations[nginx.ingress.kubernetes.io/server-alias]: host \
          own.shop.example belongs to Ingress default/own, which has rules for it; the further name is left out"]
    );
    world.delete(Kind::Ingress, "own");
    assert_eq!(world.rules("own.shop.example"), ["/ -> default denied 503"]);
    assert_eq!(lost(&world), [""; 0]);
    world.delete(Kind::Ingress, "shop");
    assert!(world.host("own.shop.example").is_none() && world.host("admin.shop.example").is_none());
}

#[test]
fn invalid_hosts_and_paths_are_closed_as_meant() {
    let mut world = world();
    world.put([
        ingress("all", paths("*.shop.example", &["/"])),
        created(ingress("shop", paths("shop.example", &["/", "admin", "/a//b", "/x/../y"])), 1),
        ingress("port", paths("admin.shop.example:443", &["/admin"])),
        ingress("address", paths("10.1.2.3", &["/admin"])),
        ingress("none", paths("a b", &["/admin"])),
    ]);
    assert_eq!(
        world.rules("shop.example"),
        [
            format!("/admin -> {WEB} denied 404"),
            format!("/a/b -> {WEB} denied 404"),
            format!("/y -> {WEB} denied 404"),
            format!("/ -> {WEB}"),
        ]
    );
    for host in ["admin.shop.example", "10.1.2.3"] {
        assert_eq!(world.rules(host)[0], format!("/admin -> {WEB} denied 404"), "{host}");
    }
    assert_eq!(world.mirror.hosts.len(), 4);
    assert_eq!(world.problems().len(), 6, "{:?}", world.texts());
}

#[test]
fn client_certificates_close_the_whole_host() {
    let mut world = world();
    let guarded = with("guarded", &[("auth-tls-secret", "default/ca")], paths("shop.example", &["/admin"]));
    world.put([
        created(ingress("api", paths("shop.example", &["/api"])), 1),
        ingress("elsewhere", paths("other.example", &["/"])),
        created(guarded, 2),
    ]);
    assert_eq!(
        world.rules("shop.example"),
        [
            format!("/admin -> {WEB} denied 403"),
            format!("/api -> {WEB} denied 403"),
            "/ -> default denied 403".into(),
        ]
    );
    assert_eq!(world.rules("other.example"), [format!("/ -> {WEB}")]);
    let texts = world.texts();
    assert!(
        texts.iter().any(|text| text.contains("default/api") && text.contains("default/guarded")),
        "{texts:?}"
    );
    world.delete(Kind::Ingress, "guarded");
    assert_eq!(world.rules("shop.example")[0], format!("/api -> {WEB}"));
    assert_eq!(world.problems(), []);
}

#[test]
fn a_backend_that_is_no_service_is_closed() {
    let mut world = world();
    let bucket = json!({"resource": {"kind": "Bucket", "name": "b"}});
    world.put([
        ingress("shop", paths("shop.example", &["/"])),
        ingress(
            "static",
            json!({"rules": [{"host": "shop.example", "http": {"paths": [
                {"path": "/static", "pathType": "Prefix", "backend": bucket}]}}]}),
        ),
    ]);
    assert_eq!(world.rules("shop.example"), ["/static -> 503".to_owned(), format!("/ -> {WEB}")]);
}

#[test]
fn foreign_ingresses_and_canaries_claim_nothing() {
    let mut world = world();
    let mut foreign = paths("shop.example", &["/admin"]);
    foreign["ingressClassName"] = "other".into();
    world.put([
        class("other", "example.com/other"),
        created(ingress("shop", paths("shop.example", &["/"])), 2),
        created(rejected("foreign", foreign), 1),
        created(with("canary", &[("canary", "true")], paths("shop.example", &["/", "/admin"])), 1),
        created(
            with("bad-canary", &[("canary", "true"), ("limit-rps", "many")], paths("shop.example", &["/"])),
            1,
        ),
    ]);
    assert_eq!(world.rules("shop.example"), [format!("/ -> {WEB}")]);
}

#[test]
fn a_closed_host_keeps_its_certificate() {
    let mut world = world();
    let mut spec = paths("shop.example", &["/"]);
    spec["tls"] = json!([{"hosts": ["shop.example"], "secretName": "tls"}]);
    world.put([tls_secret("tls", &pair(&["shop.example"])), ingress("shop", spec.clone())]);
    let before = world.host("shop.example").unwrap().tls.clone();
    world.put([rejected("shop", spec)]);
    let Some(HostTls { certificate: Some(_), .. }) = &before else { panic!("{before:?}") };
    assert_eq!(world.host("shop.example").unwrap().tls, before);
}

/// Rules of Ingresses, without the one for all other paths.
fn asked(world: &World, host: &str) -> Vec<Rule> {
    let rules = world.host(host).map(|host| host.rules.clone()).unwrap_or_default();
    let is_rest = |rule: &Rule| match &rule.action {
        Action::Forward(backends) => matches!(backends[0].backend, Backend::Default),
        _ => false,
    };
    rules.into_iter().filter(|rule| !is_rest(rule)).collect()
}

proptest! {
    /// Whatever other Ingresses exist, rejecting one closes its own rules and changes nothing else.
    #[test]
    fn rejecting_an_ingress_closes_its_own_rules_only(
        ingresses in proptest::collection::vec(
            (
                select(vec!["a.example", "*.example", "b.example"]),
                proptest::collection::vec(select(vec!["/", "=/", "/a", "=/a", "/a/", "/a/b", "/b", "/a//b"]), 0..4),
                0..3u32,
                any::<bool>(),
            ),
            1..6,
        ),
        annotation in select(vec![
            ("limit-rps", "many"),
            ("auth-type", "bearer"),
            ("whitelist-source-range", "x"),
        ]),
    ) {
        let mut before = world();
        let mut after = world();
        for (index, (host, list, age, default)) in ingresses.iter().enumerate() {
            let name = format!("i{index}");
            let mut spec = paths(host, list);
            if *default {
                spec["defaultBackend"] = backend("web", json!({"number": 80}));
            }
            before.put([created(ingress(&name, spec.clone()), *age)]);
            let annotations = if index == 0 { vec![annotation] } else { Vec::new() };
            after.put([created(with(&name, &annotations, spec), *age)]);
        }
        for host in ["a.example", "*.example", "b.example", "_"] {
            let (before, after) = (asked(&before, host), asked(&after, host));
            prop_assert_eq!(before.len(), after.len());
            for (was, is) in before.iter().zip(&after) {
                prop_assert_eq!(&was.matches, &is.matches);
                prop_assert_eq!(&was.origin, &is.origin);
                if &*was.origin.object.name.name == "i0" {
                    prop_assert!(is.policies.deny.is_some());
                } else {
                    prop_assert_eq!(was, is);
                }
            }
        }
    }

    /// A closed Ingress with expressions and further host names closes more, opens nothing, and
    /// takes no path from older Ingresses.
    #[test]
    fn a_closed_ingress_that_asks_for_more_only_closes_more(
        ingresses in proptest::collection::vec(
            (
                select(vec!["a.example", "*.example", "b.example"]),
                proptest::collection::vec(
                    select(vec!["/", "=/", "/a", "=/a", "/a/b", "/b", "/a(/|$)(.*)", "/(?C1)", "/a|/b(?C1)", "/[ab]+"]),
                    0..4,
                ),
                0..3u32,
            ),
            1..6,
        ),
        closing in select(vec![("limit-rps", "many"), ("auth-type", "bearer")]),
        further in proptest::sample::subsequence(
            vec![("use-regex", "true"), ("rewrite-target", "/$1"), ("server-alias", "b.example, alias.example")],
            0..4,
        ),
    ) {
        let mut before = world();
        let mut after = world();
        for (index, (host, list, age)) in ingresses.iter().enumerate() {
            let name = format!("i{index}");
            let spec = regex_to(host, list);
            before.put([created(ingress(&name, spec.clone()), *age)]);
            let mut annotations = Vec::new();
            if index == 0 {
                annotations.push(closing);
                annotations.extend(&further);
            }
            after.put([created(with(&name, &annotations, spec), *age)]);
        }
        let is_of_closed = |rule: &&Rule| &*rule.origin.object.name.name == "i0";
        let comes_first = |rule: &Rule| {
            let index: usize = rule.origin.object.name.name[1..].parse().unwrap();
            // At the same age, the later name comes first, and the closed one has the first name.
            ingresses[index].2 <= ingresses[0].2
        };
        for host in ["a.example", "*.example", "b.example", "_"] {
            let (before, after) = (asked(&before, host), asked(&after, host));
            prop_assert!(after.iter().filter(is_of_closed).all(|rule| rule.policies.deny.is_some()));
            for was in before.iter().filter(is_of_closed) {
                prop_assert!(after.iter().any(|is| is.matches == was.matches && is.origin == was.origin), "{was:?}");
            }
            let mut left = after.iter().filter(|rule| !is_of_closed(rule));
            let mut next = left.next();
            for was in before.iter().filter(|rule| !is_of_closed(rule)) {
                match next {
                    Some(is) if is == was => next = left.next(),
                    _ => prop_assert!(!comes_first(was), "lost: {was:?}"),
                }
            }
            prop_assert!(next.is_none(), "new, or in another place: {next:?}");
        }
        let alias = after.host("alias.example");
        prop_assert_eq!(alias.is_some(), further.iter().any(|(name, _)| *name == "server-alias"));
        let rules = alias.map(|host| &host.rules[..]).unwrap_or_default();
        prop_assert!(rules.iter().all(|rule| rule.policies.deny.is_some()));
    }
}
