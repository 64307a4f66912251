//! Hosts and paths: precedence, conflicts, default backends.

use serde_json::{Value, json};
use sluice_config::{Code, Severity};
use sluice_controller::Options;
use sluice_controller::store::Kind;

use crate::support::*;

const WEB: &str = "web:http (http)";

fn world() -> World {
    World::ready(Options::default())
}

#[test]
fn exact_first_then_the_longest_then_the_rest_goes_to_the_default_backend() {
    let mut world = world();
    world.put([ingress("shop", paths("shop.example", &["/a", "/a/b", "=/a", "=/long/exact", "/a/b/c/"]))]);
    assert_eq!(
        world.rules("shop.example"),
        [
            format!("=/long/exact -> {WEB}"),
            "=/a/b/c -> 301".to_owned(),
            format!("=/a -> {WEB}"),
            format!("/a/b/c/ -> {WEB}"),
            format!("/a/b -> {WEB}"),
            format!("/a -> {WEB}"),
            "/ -> default".to_owned(),
        ]
    );
    assert_eq!(world.problems(), []);
    assert!(!world.host("shop.example").unwrap().fall_through);
}

#[test]
fn a_slash_is_appended_only_if_the_bare_path_is_unclaimed() {
    let mut world = world();
    world.put([ingress("shop", paths("shop.example", &["/", "/a/", "/a", "/b/", "=/b", "=/c/"]))]);
    assert!(
        !world.rules("shop.example").iter().any(|rule| rule.contains("301")),
        "{:?}",
        world.rules("shop.example")
    );
    world.put([ingress("shop", paths("shop.example", &["/", "/a/"]))]);
    assert_eq!(world.rules("shop.example")[0], "=/a -> 301");
}

#[test]
fn the_oldest_wins_and_the_problem_names_it() {
    let mut world = world();
    let older = created(ingress("older", paths("shop.example", &["/cart"])), 1);
    let mut loser = paths("shop.example", &["/cart", "/own"]);
    loser["rules"][0]["http"]["paths"][0]["backend"] = backend("absent", json!({"number": 80}));
    world.put([created(ingress("newer", loser), 2), older]);
    assert_eq!(
        world.rules("shop.example"),
        [format!("/cart -> {WEB}"), format!("/own -> {WEB}"), "/ -> default".into()]
    );
    assert_eq!(
        world.texts(),
        [
            "error: Ingress default/newer: spec.rules[0].http.paths[0].path: host \"shop.example\" and path \"/cart\" \
          is already defined in ingress default/older (spec.rules[0].http.paths[0]), and is left out; remove one of \
          the two, or give it another host or path [PathConflict]"
        ]
    );
    world.delete(Kind::Ingress, "older");
    assert_eq!(world.rules("shop.example")[0], "/cart -> 503");
}

#[test]
fn of_one_age_the_later_name_counts_as_older() {
    let mut world = world();
    world.put([
        ingress("a", paths("shop.example", &["/cart"])),
        ingress("b", paths("shop.example", &["/cart"])),
    ]);
    assert!(world.texts()[0].starts_with("error: Ingress default/a:"), "{:?}", world.texts());
}

#[test]
fn exact_and_prefix_of_one_path_coexist() {
    let mut world = world();
    let mut other = paths("shop.example", &["/a"]);
    other["rules"][0]["http"]["paths"][0]["pathType"] = "ImplementationSpecific".into();
    world.put([
        created(ingress("one", paths("shop.example", &["=/a", "/a"])), 1),
        created(ingress("two", other), 2),
    ]);
    assert_eq!(world.rules("shop.example").len(), 3);
    assert_eq!(world.problems().len(), 1, "ImplementationSpecific conflicts with Prefix");
}

#[test]
fn wildcards_and_bad_hosts() {
    let mut world = world();
    let mut spec = paths("*.Shop.example", &["/"]);
    for bad in ["*", "a:80", "10.0.0.1"] {
        spec["rules"].as_array_mut().unwrap().push(json!({"host": bad}));
    }
    world.put([ingress("shop", spec)]);
    assert_eq!(world.rules("*.shop.example"), [format!("/ -> {WEB}")]);
    for meant in ["a", "10.0.0.1"] {
        assert_eq!(world.rules(meant), ["/ -> default denied 404"], "{meant}");
    }
    assert_eq!(world.mirror.hosts.len(), 3);
    let fields: Vec<String> = world.problems().into_iter().map(|problem| problem.field).collect();
    assert_eq!(fields, ["spec.rules[1].host", "spec.rules[2].host", "spec.rules[3].host"]);
}

#[test]
fn default_backends_of_an_ingress_with_and_without_rules() {
    let mut world = world();
    let mut spec = paths("shop.example", &["/a"]);
    spec["defaultBackend"] = backend("web", json!({"name": "http"}));
    world.put([ingress("shop", spec)]);
    assert_eq!(world.rules("shop.example"), [format!("/a -> {WEB}"), format!("/ -> {WEB}")]);
    assert!(world.host("_").is_none(), "with rules it is for its own hosts");

    let only = json!({"defaultBackend": backend("web", json!({"number": 80}))});
    world.put([created(
        annotated("all", json!({"nginx.ingress.kubernetes.io/force-ssl-redirect": "true"}), only.clone()),
        1,
    )]);
    assert_eq!(world.rules("_"), [format!("/ -> {WEB}")]);
    let rest = &world.host("_").unwrap().rules[0];
    assert_eq!(rest.policies.https_redirect.force, Some(false), "strangers' hosts are not redirected");

    let second = json!({"defaultBackend": backend("absent", json!({"number": 80}))});
    world.put([created(ingress("second", second), 2)]);
    assert_eq!(world.rules("_"), [format!("/ -> {WEB}")]);
    assert!(world.texts()[0].contains("already that of Ingress default/all"), "{:?}", world.texts());

    world.put([created(
        ingress(
            "third",
            json!({"rules": [{"http": {"paths": [path_to("/x", "web", json!({"number": 80}))]}}]}),
        ),
        3,
    )]);
    assert_eq!(world.rules("_"), [format!("/x -> {WEB}"), format!("/ -> {WEB}")]);
}

#[test]
fn a_younger_default_backend_does_not_serve_the_rest_of_an_older_host() {
    let mut world = world();
    let mut younger = paths("shop.example", &["/b"]);
    younger["defaultBackend"] = backend("web", json!({"number": 80}));
    world.put([
        created(ingress("older", paths("shop.example", &["/a"])), 1),
        created(ingress("younger", younger.clone()), 2),
    ]);
    assert_eq!(
        world.rules("shop.example"),
        [format!("/b -> {WEB}"), format!("/a -> {WEB}"), "/ -> default".into()]
    );
    let problems = world.problems();
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!((problem.code, &*problem.field), (Code::DefaultBackendConflict, "spec.defaultBackend"));
    assert!(problem.message.contains("Ingress default/older is older"), "{problem}");
    world.put([created(ingress("younger", younger), 0)]);
    assert_eq!(world.rules("shop.example")[2], format!("/ -> {WEB}"));
    assert_eq!(world.problems(), []);
}

#[test]
fn a_rule_without_host_or_without_paths() {
    let mut world = world();
    world.put([ingress(
        "shop",
        json!({"rules": [{"http": {"paths": [path_to("/x", "web", json!({"number": 80}))]}},
        {"host": "bare.example"}]}),
    )]);
    assert_eq!(world.rules("_"), [format!("/x -> {WEB}"), "/ -> default".into()]);
    assert_eq!(world.rules("bare.example"), ["/ -> default"]);
}

#[test]
fn disable_catch_all_closes_whatever_has_a_default_backend() {
    let mut world = World::ready(Options { disable_catch_all: true, ..Options::default() });
    let mut spec = paths("shop.example", &["/a"]);
    spec["defaultBackend"] = backend("web", json!({"name": "http"}));
    world.put([ingress("shop", spec)]);
    assert_eq!(world.rules("shop.example")[0], format!("/a -> {WEB} denied 404"));
    assert_eq!(world.mirror.hosts.len(), 1);
    assert_eq!(world.problems()[0].field, "spec.defaultBackend");
}

#[test]
fn the_program_s_default_backend_is_the_first_port_of_its_service() {
    let name = sluice_config::NamespacedName::new("default", "web");
    let mut world = World::new(Options { default_backend_service: Some(name), ..Options::default() });
    world.put([]);
    assert_eq!(world.mirror.settings.default_backend, None);
    assert_eq!(world.problems()[0].severity, Severity::Warning);
    assert!(world.texts()[0].contains("Flag --default-backend-service"));
    world.put([service("web", json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}]))]);
    let (pool, shown) = world.mirror.settings.default_backend.clone().unwrap();
    assert_eq!(shown.to_string(), "default-web-1");
    assert!(world.mirror.pools.contains_key(&pool));
    assert_eq!(world.problems(), []);
    assert_eq!(world.endpoints("web", "a"), Some(vec![]));
}

#[test]
fn a_broken_ingress_harms_no_other() {
    let mut world = world();
    world.put([created(ingress("good", paths("shop.example", &["/good"])), 1)]);
    let broken: Vec<Value> = vec![
        annotated(
            "z1",
            json!({"nginx.ingress.kubernetes.io/limit-rps": "many"}),
            paths("shop.example", &["/good", "/"]),
        ),
        annotated(
            "z2",
            json!({"nginx.ingress.kubernetes.io/configuration-snippet": "x"}),
            paths("shop.example", &["/"]),
        ),
        annotated(
            "z3",
            json!({"nginx.ingress.kubernetes.io/canary": "true"}),
            paths("shop.example", &["/good"]),
        ),
        ingress(
            "z4",
            json!({"rules": [{"host": "not a host", "http": {"paths": [path_to("/", "web", json!({"number": 80}))]}}]}),
        ),
        ingress("z5", paths("shop.example", &["no-slash"])),
        ingress(
            "z6",
            json!({"rules": [{"host": "shop.example", "http": {"paths": [
            {"path": "/", "pathType": "Prefix", "backend": {"resource": {"kind": "Bucket", "name": "b"}}}]}}]}),
        ),
    ];
    world.put(broken.into_iter().map(|object| created(object, 2)));
    assert_eq!(
        world.rules("shop.example"),
        [format!("/no-slash -> {WEB} denied 404"), format!("/good -> {WEB}"), "/ -> 503".into()]
    );
    // One for each, and the conflicts of z1, z2 and z3.
    assert_eq!(world.problems().len(), 6 + 4, "{:?}", world.texts());
    let denied = annotated(
        "a",
        json!({"nginx.ingress.kubernetes.io/modsecurity-snippet": "SecRuleEngine On"}),
        paths("shop.example", &["/closed"]),
    );
    world.put([denied]);
    assert_eq!(
        world.rules("shop.example"),
        [
            format!("/no-slash -> {WEB} denied 404"),
            format!("/closed -> {WEB} denied 503"),
            format!("/good -> {WEB}"),
            "/ -> 503".into(),
        ]
    );
}

#[test]
fn an_invalid_update_closes_the_routes_and_a_valid_one_opens_them_again() {
    let mut world = world();
    let good = ingress("shop", paths("shop.example", &["/"]));
    world.put([good.clone()]);
    world.put([annotated(
        "shop",
        json!({"nginx.ingress.kubernetes.io/limit-rps": "many"}),
        paths("shop.example", &["/"]),
    )]);
    assert_eq!(world.rules("shop.example"), [format!("/ -> {WEB} denied 404")]);
    assert!(world.texts()[0].contains("\"many\" must be an integer"));
    world.put([good]);
    assert_eq!(world.rules("shop.example"), [format!("/ -> {WEB}")]);
    assert_eq!(world.problems(), []);
}

#[test]
fn an_alias_that_cannot_be_read_is_skipped_and_closes_nothing() {
    let mut world = world();
    let alias = json!({"nginx.ingress.kubernetes.io/server-alias": "store.example, ~^s[0-9]+\\.example$, ~^s(, a.*.b"});
    world.put([annotated("shop", alias, paths("shop.example", &["/"]))]);
    for host in ["shop.example", "store.example"] {
        assert_eq!(world.rules(host), [format!("/ -> {WEB}")], "{host}");
    }
    let hosts: Vec<String> = world.mirror.hosts.keys().map(|key| key.pattern.to_string()).collect();
    assert!(hosts.contains(&"~^s[0-9]+\\.example$".to_owned()), "{hosts:?}");
    let problems = world.problems();
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!(problem.severity, Severity::Warning);
    for part in ["\"~^s(\", which is a regular expression that cannot be read", "\"a.*.b\", which has a *"] {
        assert!(problem.message.contains(part), "{part}: {}", problem.message);
    }
}

#[test]
fn an_open_ended_alias_does_not_let_clients_choose_the_authoriser() {
    let mut world = world();
    let annotations = json!({
        "nginx.ingress.kubernetes.io/auth-url": "https://$host/oauth2/auth",
        "nginx.ingress.kubernetes.io/server-alias": "app.*, ~^www\\d+\\.example\\.com, *.example.net",
    });
    world.put([annotated("app", annotations, paths("app.example.com", &["/"]))]);
    let closed = |text: &str| {
        let mut hosts = world.mirror.hosts.values();
        let host = hosts.find(|host| host.key.pattern.to_string() == text).unwrap();
        let statuses: Vec<Option<u16>> =
            host.rules.iter().map(|rule| rule.policies.deny.as_ref().map(|deny| deny.status)).collect();
        statuses == [Some(503)]
    };
    assert!(closed("app.*") && closed(r"~^www\d+\.example\.com"));
    assert!(!closed("app.example.com") && !closed("*.example.net"));
    let problems = world.problems();
    let messages: Vec<&str> = problems
        .iter()
        .filter(|problem| problem.code == Code::AuthorisationByAnyHost)
        .map(|problem| &*problem.message)
        .collect();
    assert_eq!(messages.len(), 2, "{problems:?}");
    assert!(messages.iter().any(|message| message.contains("server-alias app.* may match")), "{messages:?}");
}
