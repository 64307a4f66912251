//! Paths as regular expressions, rewriting, and the redirect of `/`.

use serde_json::{Value, json};
use sluice_config::{Action, Code, Expression, PathMatch, RedirectPath, RewritePart, RewriteQuery};
use sluice_controller::Options;
use sluice_controller::store::Kind;

use crate::support::*;

const WEB: &str = "web:http (http)";
const HOST: &str = "shop.example";

/// Paths that are meant as expressions.
fn expressions(paths: &[&str]) -> Value {
    let mut spec = crate::support::paths(HOST, paths);
    for path in spec["rules"][0]["http"]["paths"].as_array_mut().unwrap() {
        path["pathType"] = "ImplementationSpecific".into();
    }
    spec
}

fn world() -> World {
    World::ready(Options::default())
}

fn codes(world: &World) -> Vec<Code> {
    world.problems().iter().map(|problem| problem.code).collect()
}

#[test]
fn one_annotation_makes_all_paths_of_the_host_expressions_by_length() {
    let mut world = world();
    world.put([
        created(ingress("old", paths(HOST, &["/shop/", "=/exact", "/b", "/"])), 1),
        created(with("new", &[("use-regex", "true")], paths(HOST, &["/shop/[a-z]+", "/c"])), 2),
        ingress("elsewhere", paths("other.example", &["/shop/", "/"])),
    ]);
    assert_eq!(
        world.rules(HOST),
        [
            format!("~(?i)^/shop/[a-z]+ -> {WEB}"),
            format!("~(?i)^/shop/ -> {WEB}"),
            format!("~(?i)^/exact -> {WEB}"),
            format!("~(?i)^/c -> {WEB}"),
            format!("~(?i)^/b -> {WEB}"),
            format!("/ -> {WEB}"),
        ]
    );
    assert_eq!(
        world.rules("other.example"),
        ["=/shop -> 301".to_owned(), format!("/shop/ -> {WEB}"), format!("/ -> {WEB}")]
    );
    world.delete(Kind::Ingress, "new");
    assert_eq!(world.rules(HOST)[0], format!("=/exact -> {WEB}"), "nothing is left of it");
}

#[test]
fn exact_and_prefix_are_one_path_among_expressions() {
    let mut world = world();
    world.put([
        created(with("old", &[("use-regex", "true")], paths(HOST, &["/a"])), 1),
        created(ingress("new", paths(HOST, &["=/a", "/b"])), 2),
    ]);
    assert_eq!(world.rules(HOST)[..2], [format!("~(?i)^/b -> {WEB}"), format!("~(?i)^/a -> {WEB}")]);
    assert_eq!(codes(&world), [Code::PathConflict]);
}

#[test]
fn a_prefix_took_the_requests_of_an_exact_path_among_expressions() {
    let expression = with("spa", &[("use-regex", "true")], expressions(&["/zzz/(.*)"]));
    let rules = |exact: &[(&str, &str)]| {
        let mut world = world();
        world.put([
            created(ingress("prefix", paths(HOST, &["/foo", "/bar/", "/"])), 1),
            created(with("exact", exact, paths(HOST, &["=/foo", "=/bar/", "=/"])), 2),
            created(expression.clone(), 3),
        ]);
        world.rules(HOST)
    };
    let served = [
        format!("~(?i)^/zzz/(.*) -> {WEB}"),
        format!("~(?i)^/bar/ -> {WEB}"),
        format!("~(?i)^/foo/ -> {WEB}"),
        format!("~(?i)^/foo -> {WEB}"),
        format!("/ -> {WEB}"),
    ];
    assert_eq!(rules(&[]), served);
    let closed = rules(&[("limit-rps", "many")]);
    assert_eq!(closed.iter().filter(|rule| !rule.contains("denied")).cloned().collect::<Vec<_>>(), {
        let mut open = served.to_vec();
        open.remove(3);
        open
    });
    assert!(closed.contains(&format!("~(?i)^/foo -> {WEB} denied 404")), "{closed:?}");

    // A rewritten Prefix path keeps its text, as in ingress-nginx.
    let mut world = world();
    world.put([
        created(with("prefix", &[("rewrite-target", "/x")], paths(HOST, &["/foo"])), 1),
        created(ingress("exact", paths(HOST, &["=/foo"])), 2),
    ]);
    assert_eq!(world.rules(HOST)[0], format!("~(?i)^/foo -> {WEB}"));
    assert_eq!(codes(&world), [Code::PathConflict]);
}

/// Returns the rules of the host, but for the default backend's, with their Ingresses.
fn owned_rules(world: &World) -> Vec<String> {
    let host = world.host(HOST).unwrap();
    let owners = host.rules.iter().map(|rule| rule.origin.object.name.name.to_string());
    let rules = world.rules(HOST);
    let own = rules.iter().zip(owners).filter(|(rule, _)| rule.ends_with(WEB));
    own.map(|(rule, owner)| format!("{owner} {rule}")).collect()
}

#[test]
fn a_path_without_a_type_is_a_prefix_beside_an_exact_one_in_expressions() {
    let mut untyped = paths(HOST, &["/foo"]);
    untyped["rules"][0]["http"]["paths"][0].as_object_mut().unwrap().remove("pathType");
    for spec in [expressions(&["/foo"]), untyped] {
        let mut world = world();
        world.put([
            created(ingress("open", spec), 1),
            created(ingress("exact", paths(HOST, &["=/foo"])), 2),
            created(with("regex", &[("use-regex", "true")], expressions(&["/zzz/(.*)"])), 3),
        ]);
        let served = ["open ~(?i)^/foo/", "exact ~(?i)^/foo"].map(|rule| format!("{rule} -> {WEB}"));
        assert_eq!(owned_rules(&world)[1..], served);
        assert_eq!(codes(&world), []);
    }
}

#[test]
fn a_prefix_beside_an_exact_path_keeps_its_rank() {
    let mut world = world();
    world.put([
        created(ingress("prefix", paths(HOST, &["/foo"])), 1),
        created(ingress("exact", paths(HOST, &["=/foo"])), 2),
        created(with("regex", &[("use-regex", "true")], expressions(&["/.*/x", "/fu?", "/f.+"])), 3),
    ]);
    let served = [
        "regex ~(?i)^/.*/x",
        "regex ~(?i)^/fu?",
        "prefix ~(?i)^/foo/",
        "exact ~(?i)^/foo",
        "regex ~(?i)^/f.+",
    ];
    assert_eq!(owned_rules(&world), served.map(|rule| format!("{rule} -> {WEB}")));

    // An older Exact path precedes it, and matches all of its requests.
    let mut world = self::world();
    world.put([
        created(ingress("exact", paths(HOST, &["=/foo"])), 1),
        created(ingress("prefix", paths(HOST, &["/foo"])), 2),
        created(with("regex", &[("use-regex", "true")], expressions(&["/.*/x"])), 3),
    ]);
    let served = ["regex ~(?i)^/.*/x", "exact ~(?i)^/foo"].map(|rule| format!("{rule} -> {WEB}"));
    assert_eq!(owned_rules(&world), served);
    assert_eq!(codes(&world), [Code::PathConflict]);
}

#[test]
fn an_explicit_slash_path_is_not_taken_by_a_prefix_beside_an_exact_path() {
    let mut world = world();
    world.put([
        created(ingress("prefix", paths(HOST, &["/foo"])), 1),
        created(ingress("slash", paths(HOST, &["/foo/"])), 2),
        created(with("regex", &[("use-regex", "true")], expressions(&["/zzz/(.*)", "/foo"])), 3),
        created(ingress("exact", paths(HOST, &["=/foo"])), 4),
    ]);
    let served = ["slash ~(?i)^/foo/", "prefix ~(?i)^/foo/", "exact ~(?i)^/foo"];
    assert_eq!(owned_rules(&world)[1..], served.map(|rule| format!("{rule} -> {WEB}")));
    // A path of the same text and type is the older one's, whatever that covers.
    assert_eq!(codes(&world), [Code::PathConflict]);
    assert!(world.texts()[0].contains("default/regex"), "{:?}", world.texts());
}

#[test]
fn an_exact_root_takes_no_other_path_among_expressions() {
    let expression = with("regex", &[("use-regex", "true")], expressions(&["/zzz/(.*)"]));
    let denied = [("denylist-source-range", "127.0.0.0/8")];
    let rules = |older: &Value, newer: &Value| {
        let mut world = world();
        world.put([created(older.clone(), 1), created(newer.clone(), 2), created(expression.clone(), 3)]);
        (owned_rules(&world)[1..].to_vec(), codes(&world))
    };
    let (exact, prefix) =
        (ingress("exact", paths(HOST, &["=/"])), with("prefix", &denied, paths(HOST, &["/"])));
    let of_prefix = (vec![format!("prefix / -> {WEB}")], vec![Code::PathConflict]);
    assert_eq!(rules(&exact, &prefix), of_prefix);
    assert_eq!(rules(&prefix, &exact), of_prefix);

    let mut world = world();
    world.put([created(exact.clone(), 1), created(expression.clone(), 3)]);
    let alone = world.rules(HOST);
    assert_eq!(alone[1], format!("=/ -> {WEB}"));
    assert!(alone.len() == 3 && !alone[2].contains(WEB), "the default backend has the rest: {alone:?}");
    assert_eq!(codes(&world), []);

    // Both in one Ingress, in either order.
    for both in [["=/", "/"], ["/", "=/"]] {
        world.put([created(ingress("exact", paths(HOST, &both)), 1)]);
        assert_eq!(world.rules(HOST)[1..], [format!("/ -> {WEB}")], "{both:?}");
    }

    // The only one with expressions is closed, and so is the one with the Exact path.
    let closed =
        |name: &str, annotation: &str, spec| with(name, &[(annotation, "true"), ("limit-rps", "many")], spec);
    let mut world = self::world();
    world.put([
        created(closed("exact", "enable-cors", paths(HOST, &["=/"])), 1),
        created(prefix, 2),
        created(closed("regex", "use-regex", expressions(&["/zzz/(.*)"])), 3),
    ]);
    assert!(world.rules(HOST).contains(&format!("/ -> {WEB}")), "{:?}", world.rules(HOST));
}

#[test]
fn a_target_that_is_the_path_itself_asks_for_nothing() {
    let mut world = world();
    world.put([with("same", &[("rewrite-target", "/")], paths(HOST, &["/"]))]);
    assert_eq!(world.rules(HOST), [format!("/ -> {WEB}")]);
    assert_eq!(world.host(HOST).unwrap().rules[0].policies.rewrite, None);
    world.put([with("same", &[("rewrite-target", "/")], paths(HOST, &["/", "/x"]))]);
    assert_eq!(world.rules(HOST), [format!("~(?i)^/x -> {WEB}"), format!("/ -> {WEB}")]);
}

/// ingress-nginx compares path and target again after it has appended a slash to a Prefix path.
#[test]
fn a_target_that_is_its_prefix_path_rewrites_what_is_below() {
    let target = [("rewrite-target", "/foo"), ("x-forwarded-prefix", "/x")];
    let rewritten = |world: &World| -> Vec<String> {
        let rules = &world.host(HOST).unwrap().rules;
        let rewritten = rules.iter().filter(|rule| rule.policies.rewrite.is_some());
        rewritten.map(|rule| format!("{:?}", rule.matches.path)).collect()
    };
    let mut world = world();
    world.put([with("same", &[target[0]], expressions(&["/foo"]))]);
    assert_eq!(rewritten(&world), [r#"Regex("(?i)^/foo/")"#], "ImplementationSpecific");
    world.put([with("same", &target, paths(HOST, &["/foo"]))]);
    let [below, path] = ["~(?i)^/foo/", "~(?i)^/foo"].map(|path| format!("{path} -> {WEB}"));
    assert_eq!(world.rules(HOST)[..2], [below.clone(), path.clone()]);
    let rules = &world.host(HOST).unwrap().rules;
    let rewrite = rules[0].policies.rewrite.as_ref().unwrap();
    assert_eq!(rewrite.path, [RewritePart::Text("/foo".into())]);
    assert_eq!((rules[1].policies.rewrite.as_ref(), codes(&world)), (None, vec![]));

    let canary = [("canary", "true"), ("canary-weight", "5")];
    let port = json!([{"name": "http", "port": 8080}]);
    let mut next = paths(HOST, &["/foo"]);
    next["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"] = "next".into();
    let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
    world.put([service("next", ports), slice("next-1", "next", port, json!(["10.0.0.9"]))]);
    world.put([with("next", &canary, next)]);
    let rules = &world.host(HOST).unwrap().rules;
    let canaries: Vec<_> = rules.iter().map(|rule| rule.policies.canaries.len()).collect();
    assert_eq!((canaries, codes(&world)), (vec![1, 1, 0], vec![]));
    world.delete(Kind::Ingress, "next");

    world.put([ingress("exact", paths(HOST, &["=/foo"]))]);
    assert_eq!(owned_rules(&world)[..2], [format!("same {below}"), format!("exact {path}")]);
    assert_eq!(rewritten(&world), [r#"Regex("(?i)^/foo/")"#]);
    world.delete(Kind::Ingress, "exact");

    for (annotations, spec) in [
        (vec![target[0]], paths(HOST, &["=/foo"])),
        (vec![("rewrite-target", "/foo/")], paths(HOST, &["/foo/"])),
        (vec![target[0], ("use-regex", "true")], paths(HOST, &["/foo"])),
    ] {
        world.put([with("same", &annotations, spec)]);
        assert_eq!(rewritten(&world), [""; 0], "{annotations:?}");
    }
}

#[test]
fn each_path_has_its_own_rewriting() {
    let mut world = world();
    let annotations = [("rewrite-target", "/$2"), ("x-forwarded-prefix", "/$1")];
    world.put([with("shop", &annotations, expressions(&["/(shop)(.*)", "/(a|b)/(?<rest>.*)"]))]);
    assert_eq!(world.problems(), []);
    let host = world.host(HOST).unwrap();
    for (rule, path) in host.rules.iter().zip(["/(a|b)/(?<rest>.*)", "/(shop)(.*)"]) {
        assert_eq!(rule.matches.path, PathMatch::Regex(format!("(?i)^{path}").into()));
        let rewrite = rule.policies.rewrite.as_ref().unwrap();
        assert_eq!(rewrite.pattern, Some(Expression::Plain(format!("(?i){path}").into())));
        assert_eq!(rewrite.path, [RewritePart::Text("/".into()), RewritePart::Group(2)]);
        assert_eq!(rewrite.query, RewriteQuery::Keep);
        let prefix = vec![RewritePart::Text("/".into()), RewritePart::Group(1)];
        assert_eq!(rewrite.forwarded_prefix, Some(prefix));
    }
    let rest = host.rules.last().unwrap();
    assert_eq!(rest.policies.rewrite, None, "other paths are not rewritten");
}

#[test]
fn a_prefix_alone_has_no_effect() {
    let mut world = world();
    world.put([with("shop", &[("x-forwarded-prefix", "/shop")], paths(HOST, &["/"]))]);
    assert_eq!(world.host(HOST).unwrap().rules[0].policies.rewrite, None);
}

#[test]
fn a_path_that_lacks_the_name_of_a_group_is_closed_and_the_others_are_not() {
    let mut world = world();
    world.put([with(
        "shop",
        &[("rewrite-target", "/$rest")],
        expressions(&["/good(/|$)(?<rest>.*)", "/bad", "/named"]),
    )]);
    assert_eq!(
        world.rules(HOST)[..3],
        [
            format!("~(?i)^/good(/|$)(?<rest>.*) -> {WEB}"),
            format!("~(?i)^/named -> {WEB} denied 503"),
            format!("~(?i)^/bad -> {WEB} denied 503"),
        ]
    );
    assert_eq!(codes(&world), [Code::RewriteInvalid; 2]);
    let text = world.texts()[0].clone();
    assert!(text.contains("spec.rules[0].http.paths[1].path") && text.contains("$rest"), "{text}");
}

#[test]
fn a_missing_group_is_rewritten_as_empty_with_a_warning() {
    let mut world = world();
    world.put([with("shop", &[("rewrite-target", "/$2")], expressions(&["/good(/|$)(.*)", "/all"]))]);
    let host = world.host(HOST).unwrap();
    let all =
        host.rules.iter().find(|rule| rule.matches.path == PathMatch::Regex("(?i)^/all".into())).unwrap();
    assert_eq!(all.policies.deny, None);
    let rewrite = all.policies.rewrite.as_ref().unwrap();
    assert_eq!(rewrite.path, [RewritePart::Text("/".into()), RewritePart::Text("".into())]);
    assert_eq!(codes(&world), [Code::RewriteGroupMissing]);
    let text = world.texts()[0].clone();
    assert!(text.starts_with("warning") && text.contains("$2") && text.contains("/all"), "{text}");
}

#[test]
fn unreadable_expressions_are_closed_and_plain_paths_stay_literal() {
    let mut world = world();
    world.put([
        created(ingress("plain", paths(HOST, &["/a(b", "/"])), 1),
        created(with("shop", &[("use-regex", "true")], paths(HOST, &["/admin/(?C1)", "/ok.*"])), 2),
    ]);
    let rules = world.rules(HOST);
    assert!(rules.contains(&format!("~(?i)^/a\\(b -> {WEB}")), "{rules:?}");
    assert!(rules.contains(&format!("~(?i)^/admin/ -> {WEB} denied 503")), "{rules:?}");
    assert!(rules.contains(&format!("~(?i)^/ok.* -> {WEB}")), "{rules:?}");
    let unreadable: Vec<String> =
        world.texts().into_iter().filter(|text| text.contains("cannot be read")).collect();
    assert_eq!(unreadable.len(), 1);
    assert!(
        unreadable[0].contains("default/shop") && unreadable[0].contains("unrecognized flag"),
        "{unreadable:?}"
    );
}

#[test]
fn an_expression_with_look_ahead_sorts_by_length_and_loses_it() {
    let mut world = world();
    let path = "/(?!api)(.*)";
    world.put([with("shop", &[("rewrite-target", "/$1")], expressions(&[path, "/api", "/static/files.*"]))]);
    let by_length = ["/static/files.*", path, "/api"].map(|path| format!("~(?i)^{path} -> {WEB}"));
    assert_eq!(world.rules(HOST)[..3], by_length);
    assert!(!codes(&world).contains(&Code::ExpressionInvalid));
    let host = world.host(HOST).unwrap();
    let PathMatch::Extended(regex) = &host.rules[1].matches.path else { panic!("{:?}", host.rules[1]) };
    assert_eq!((&*regex.pattern, &*regex.conditions[0].pattern), ("(?i)^/(.*)", "(?i)^/(?:api)"));
    let rewrite = host.rules[1].policies.rewrite.as_ref().unwrap();
    assert_eq!(rewrite.pattern, Some(Expression::Plain("(?i)^/(.*)".into())));
}

#[test]
fn a_target_root_or_prefix_that_cannot_be_read_is_ignored() {
    let mut world = world();
    world.put([with("shop", &[("rewrite-target", "/$")], paths(HOST, &["/"]))]);
    assert!(world.rules(HOST).iter().all(|rule| rule.ends_with(" denied 503")), "nginx refuses it");
    let targets = ["/a b", "/$1?b=$2", "/\"x"].map(|target| ("rewrite-target", target));
    for (name, value) in
        targets.into_iter().chain([("app-root", "app"), ("app-root", "/$1"), ("x-forwarded-prefix", "/$")])
    {
        world.put([with("shop", &[(name, value)], paths(HOST, &["/"]))]);
        assert_eq!(world.rules(HOST), [format!("/ -> {WEB}")], "{name}: {value}");
        assert_eq!(codes(&world), [Code::AnnotationInvalid], "{name}: {value}");
    }
}

#[test]
fn the_root_is_redirected_for_the_whole_host_before_all_rules() {
    let mut world = world();
    world.put([
        created(ingress("main", paths(HOST, &["=/", "/"])), 1),
        created(with("app", &[("app-root", "/app")], paths(HOST, &["/app"])), 2),
    ]);
    assert_eq!(
        world.rules(HOST),
        ["=/ -> 302".to_owned(), format!("=/ -> {WEB}"), format!("/app -> {WEB}"), format!("/ -> {WEB}")]
    );
    let Action::Redirect(redirect) = &world.host(HOST).unwrap().rules[0].action else { panic!() };
    assert_eq!(redirect.path, RedirectPath::ReplaceAll("/app".into()));
    // One that is closed redirects nothing.
    let closed = with("app", &[("app-root", "/app"), ("limit-rps", "many")], paths(HOST, &["/app"]));
    world.put([created(closed, 2)]);
    assert!(!world.rules(HOST).iter().any(|rule| rule.contains("302")));
}

#[test]
fn closed_paths_among_expressions_do_not_override_older_ones() {
    let mut world = world();
    world.put([
        created(with("open", &[("rewrite-target", "/$1")], paths(HOST, &["/a(.*)", "/b(.*)"])), 1),
        created(with("closed", &[("limit-rps", "many")], paths(HOST, &["=/a", "/b(.*)", "/c/"])), 2),
    ]);
    assert_eq!(
        world.rules(HOST),
        [
            format!("~(?i)^/b(.*) -> {WEB}"),
            format!("~(?i)^/a(.*) -> {WEB}"),
            format!("~(?i)^/c/ -> {WEB} denied 404"),
            format!("/c/ -> {WEB} denied 404"),
            format!("~(?i)^/a -> {WEB} denied 404"),
            format!("/a -> {WEB} denied 404"),
            "/ -> default".to_owned(),
        ]
    );
}

#[test]
fn a_session_cookie_on_expressions_applies_to_all_paths_with_a_warning() {
    let mut world = world();
    let annotations = [("use-regex", "true"), ("affinity", "cookie")];
    world.put([with("shop", &annotations, expressions(&["/a/(.*)"]))]);
    let path = |world: &World| {
        world.host(HOST).unwrap().rules[0].policies.affinity.as_ref().unwrap().path.to_string()
    };
    assert_eq!((path(&world), codes(&world)), ("/".to_owned(), vec![Code::SessionPathMissing]));
    let annotations = [("use-regex", "true"), ("affinity", "cookie"), ("session-cookie-path", "/a")];
    world.put([with("shop", &annotations, expressions(&["/a/(.*)"]))]);
    assert_eq!((path(&world), codes(&world)), ("/a".to_owned(), vec![]));
}
