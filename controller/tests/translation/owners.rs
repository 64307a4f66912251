//! What cannot be served harms its owner at most. The owner of an Ingress is its namespace.

use serde_json::json;
use sluice_config::{Code, NamespacedName};
use sluice_controller::Options;

use crate::support::*;

const WEB: &str = "web:http (http)";
const HOST: &str = "shop.example";

/// The rules of the host that are not closed.
fn open(world: &World) -> Vec<String> {
    world.rules(HOST).into_iter().filter(|rule| !rule.contains("denied")).collect()
}

#[test]
fn a_path_that_cannot_be_parsed_closes_nothing_of_others() {
    let regex = [("use-regex", "true")];
    for unreadable in ["/(?C1)y", "/ap(?C1)", "/a|/b(?C1)"] {
        let mut world = World::ready(Options::default());
        world.put([
            created(ingress("shop", paths(HOST, &["/", "/api"])), 1),
            created(of_other(with("newer", &regex, paths(HOST, &[unreadable]))), 2),
        ]);
        let rules = world.rules(HOST);
        assert_eq!(
            rules[..2],
            [format!("~(?i)^/api -> {WEB}"), format!("/ -> {WEB}")],
            "{unreadable} comes behind all of them: {rules:?}"
        );
        assert!(world.problems().iter().any(|problem| problem.code == Code::ExpressionInvalid));
    }
}

#[test]
fn a_path_that_cannot_be_parsed_closes_broader_paths_of_its_owner() {
    let mut world = World::ready(Options::default());
    world.put([
        created(with("own", &[("use-regex", "true")], paths(HOST, &["/", "/admin", "/admin/(?C1)y"])), 2),
        created(of_other(ingress("api", paths(HOST, &["/api"]))), 1),
    ]);
    assert_eq!(
        world.rules(HOST),
        [
            format!("~(?i)^/admin/ -> {WEB} denied 503"),
            format!("~(?i)^/admin -> {WEB}"),
            "~(?i)^/api -> 503".to_owned(),
            format!("/ -> {WEB}"),
        ]
    );
}

/// The closed rule of the newer Ingress replaced the one of the older, which opened its path.
#[test]
fn the_same_unparsable_path_of_another_owner_opens_nothing() {
    let unreadable = "/admin/(?C1)y";
    let mut world = World::ready(Options::default());
    world.put([
        created(with("own", &[("use-regex", "true")], paths(HOST, &["/", unreadable])), 1),
        created(of_other(with("newer", &[("use-regex", "true")], paths(HOST, &[unreadable]))), 2),
    ]);
    let rules = world.rules(HOST);
    assert_eq!(
        rules[..2],
        [format!("~(?i)^/admin/ -> {WEB} denied 503"), format!("/ -> {WEB}")],
        "{rules:?}"
    );
}

#[test]
fn a_path_that_cannot_be_parsed_leaves_the_default_backend_of_others() {
    let mut world = World::ready(Options::default());
    let mut older = paths(HOST, &["/api"]);
    older["defaultBackend"] = backend("web", json!({"number": 80}));
    world.put([
        created(ingress("shop", older), 1),
        created(of_other(with("newer", &[("use-regex", "true")], paths(HOST, &["/(?C1)y"]))), 2),
    ]);
    assert_eq!(open(&world), [format!("~(?i)^/api -> {WEB}"), format!("/ -> {WEB}")]);
    assert!(world.rules(HOST)[2].ends_with("denied 503"), "{:?}", world.rules(HOST));
}

#[test]
fn a_path_that_no_request_has_closes_nothing_of_others() {
    let mut world = World::ready(Options::default());
    world.put([
        created(ingress("shop", paths(HOST, &["/"])), 1),
        created(of_other(ingress("newer", paths(HOST, &["/a//b", "admin"]))), 2),
    ]);
    assert_eq!(world.rules(HOST)[0], format!("/ -> {WEB}"));
}

#[test]
fn a_clean_copy_is_served_in_place_of_an_ingress_with_a_snippet() {
    let snippet = [("configuration-snippet", "more_set_headers \"X-A: b\";")];
    let older = || created(with("older", &snippet, paths(HOST, &["/", "/only-old"])), 1);
    let copy = || created(ingress("copy", paths(HOST, &["/"])), 2);
    let mut world = World::ready(Options::default());
    world.put([older(), copy()]);
    assert_eq!(
        world.rules(HOST),
        [format!("/only-old -> {WEB} denied 503"), format!("/ -> {WEB}")],
        "{:?}",
        world.texts()
    );
    let conflicts = world.problems().into_iter().filter(|problem| problem.code == Code::PathConflict);
    let conflicts: Vec<String> = conflicts.map(|problem| problem.object.to_string()).collect();
    assert_eq!(conflicts, ["Ingress default/older"]);

    let mut world = World::ready(Options::default());
    world.put([older(), of_other(copy())]);
    assert_eq!(open(&world), [""; 0], "another owner does not take its path over");

    let mut world = World::ready(Options::default());
    let both = [snippet[0], ("auth-type", "bearer")];
    world.put([created(with("older", &both, paths(HOST, &["/"])), 1), copy()]);
    assert_eq!(open(&world), [""; 0], "it is closed for another reason too");
}

/// In ingress-nginx, the locations of a host of expressions stand between the two.
#[test]
fn blocks_of_a_global_server_snippet_follow_expressions() {
    let options =
        Options { configmap: Some(NamespacedName::new("default", "controller")), ..Options::default() };
    let mut world = World::ready(options);
    let keys = [
        ("allow-snippet-annotations", "true"),
        ("annotations-risk-level", "Critical"),
        ("server-snippet", "location ~ git { deny all; }\nlocation = /a { deny all; }"),
    ];
    let data: serde_json::Map<_, _> = keys.iter().map(|(key, value)| ((*key).into(), json!(value))).collect();
    let own = ("server-snippet", "location ~ svn { deny all; }");
    let blocks = |world: &World| {
        let policies = world.host(HOST).unwrap().rules.last().unwrap().policies.clone();
        let directives = policies.directives.clone().unwrap();
        (directives.is_expression, directives.blocks.len())
    };
    world.put([config_map(data.into()), with("shop", &[own], paths(HOST, &["/"]))]);
    assert_eq!(blocks(&world), (false, 3));
    world.put([with("shop", &[own, ("use-regex", "true")], paths(HOST, &["/"]))]);
    assert_eq!(blocks(&world), (true, 2));
}

#[test]
fn a_restrictive_server_snippet_closes_the_host_for_its_namespace() {
    let restrictive = [("server-snippet", "location /actuator { deny all; }")];
    let mut world = World::ready(Options::default());
    world.put([
        created(ingress("shop", paths(HOST, &["/"])), 1),
        created(with("guard", &restrictive, paths(HOST, &["/guarded"])), 2),
        created(of_other(ingress("api", paths(HOST, &["/api"]))), 3),
    ]);
    assert_eq!(
        world.rules(HOST),
        [format!("/guarded -> {WEB} denied 503"), "/api -> 503".to_owned(), format!("/ -> {WEB} denied 503"),]
    );
    let problems = world.problems();
    let closed: Vec<_> = problems.iter().filter(|problem| problem.code == Code::HostClosed).collect();
    assert_eq!(closed.len(), 2, "{:?}", world.texts());
    assert!(closed.iter().any(|problem| problem.object.to_string() == "Ingress other/api"));

    let harmless = [("server-snippet", "proxy_buffering off;")];
    world.put([created(with("guard", &harmless, paths(HOST, &["/guarded"])), 2)]);
    assert_eq!(world.rules(HOST)[2], format!("/ -> {WEB}"));
}
