//! `app-root`, `permanent-redirect` and `temporal-redirect` beside snippets.

use serde_json::json;
use sluice_config::directives::{Condition, Instruction, Return};
use sluice_config::{Action, NamespacedName, Policies};
use sluice_controller::Options;

use crate::support::*;

const HOST: &str = "shop.example";
const WEB: &str = "web:http (http)";

/// Returns a world where snippets are translated, with these keys in the ConfigMap.
fn world(keys: &[(&str, &str)]) -> World {
    let options =
        Options { configmap: Some(NamespacedName::new("default", "controller")), ..Options::default() };
    let mut world = World::ready(options);
    let switches = [("allow-snippet-annotations", "true"), ("annotations-risk-level", "Critical")];
    let data: serde_json::Map<_, _> =
        switches.iter().chain(keys).map(|(key, value)| ((*key).into(), json!(value))).collect();
    world.put([config_map(data.into())]);
    world
}

fn policies(world: &World) -> Vec<Policies> {
    world.host(HOST).unwrap().rules.iter().map(|rule| (*rule.policies).clone()).collect()
}

/// Returns the statuses of a program's answers, in order; `app-root` has two.
fn answers(program: &[Instruction]) -> Vec<u16> {
    let of = |instruction: &Instruction| match instruction {
        Instruction::Return(Return::Page(status) | Return::Redirect { status, .. }) => vec![*status],
        Instruction::If { condition: Condition::Equal { .. } | Condition::Truth(_), then, .. } => {
            answers(then)
        }
        _ => Vec::new(),
    };
    program.iter().flat_map(of).collect()
}

#[test]
fn a_server_snippet_comes_before_app_root() {
    let servers = |world: &World| -> Vec<Vec<u16>> {
        let of = |policies: Policies| policies.directives.map(|own| answers(&own.server.program));
        policies(world).into_iter().map(|policies| of(policies).unwrap_or_default()).collect()
    };
    let app = [("app-root", "/app"), ("server-snippet", "if ($http_x_can = \"\") { return 403; }")];
    let mut world = self::world(&[("server-snippet", "return 410;")]);
    world.put([
        created(with("app", &app, paths(HOST, &["/app", "/"])), 1),
        created(of_other(ingress("api", paths(HOST, &["/api"]))), 2),
    ]);
    let rules = world.rules(HOST);
    assert!(rules.len() == 3 && !rules.iter().any(|rule| rule.contains("302")), "{rules:?}");
    let own = vec![403, 400, 302, 410];
    assert_eq!(servers(&world), [own.clone(), vec![400, 302, 410], own]);

    // A field alone is one of its response, too.
    let mut world = self::world(&[("server-snippet", "add_header X-Y srv always;")]);
    world.put([with("app", &app[..1], paths(HOST, &["/app", "/"]))]);
    assert_eq!(servers(&world), [vec![400, 302], vec![400, 302]]);

    // Blocks of the server follow the redirect.
    let mut world = self::world(&[("server-snippet", "location = /x { return 410; }")]);
    world.put([with("app", &app[..1], paths(HOST, &["/app", "/"]))]);
    assert_eq!(world.rules(HOST)[0], "=/ -> 302");
    assert_eq!(servers(&world), vec![Vec::<u16>::new(); 3]);
}

#[test]
fn the_app_root_of_the_longest_path_applies() {
    let mut world = self::world(&[]);
    world.put([
        created(with("exact", &[("app-root", "/short")], paths(HOST, &["=/a"])), 1),
        created(with("long", &[("app-root", "/long")], paths(HOST, &["/app"])), 2),
    ]);
    let rules = &world.host(HOST).unwrap().rules;
    let Action::Redirect(redirect) = &rules[0].action else { panic!("{:?}", rules[0]) };
    assert_eq!(redirect.path, sluice_config::RedirectPath::ReplaceAll("/long".into()));
}

#[test]
fn a_break_keeps_requests_from_the_redirect() {
    let redirects = [("temporal-redirect", "https://tmp.example/"), ("permanent-redirect", "/new")];
    for (redirect, status) in redirects.into_iter().zip([302, 301]) {
        let rules = |snippet: &'static str| {
            let mut world = self::world(&[]);
            let annotations = [redirect, ("configuration-snippet", snippet)];
            world.put([with("shop", &annotations, paths(HOST, &["/shop"]))]);
            assert_eq!(world.problems(), [], "{snippet}");
            let location = policies(&world)[0].directives.clone().unwrap_or_default().location.clone();
            (world.rules(HOST), answers(&location.program))
        };
        for snippet in ["if ($uri ~ ^/keep) { break; }", "rewrite ^/keep/(.*) /$1 break;"] {
            let (rules, answers) = rules(snippet);
            assert_eq!(rules[0], format!("/shop -> {WEB}"), "{snippet}");
            assert_ne!(rules[1], format!("/ -> {status}"), "the rest of the host");
            assert_eq!(answers, [status], "{snippet}");
        }
        let (rules, answers) = rules("if ($http_x) { return 410; }");
        assert_eq!(rules[..2], [format!("/shop -> {status}"), format!("/ -> {status}")]);
        assert_eq!(answers, [410]);
    }

    let mut world = self::world(&[("location-snippet", "if ($http_x) { break; }")]);
    world.put([with("shop", &redirects[..1], paths(HOST, &["/"]))]);
    assert_eq!(world.rules(HOST), [format!("/ -> {WEB}")]);
}
