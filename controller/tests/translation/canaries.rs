//! Canaries: which rule gets which, and what is wrong with the others.

use serde_json::{Value, json};
use sluice_config::{Canary, CanaryHeader, CanaryValue, Code};
use sluice_controller::Options;
use sluice_controller::store::Kind;

use crate::support::*;

const HOST: &str = "shop.example";

fn world() -> World {
    let mut world = World::ready(Options::default());
    for name in ["next", "other"] {
        let port = json!([{"name": "http", "port": 8080}]);
        world.put([
            service(name, json!([{"name": "http", "port": 80, "targetPort": 8080}])),
            slice(&format!("{name}-1"), name, port, json!(["10.0.0.9"])),
        ]);
    }
    world
}

fn to(service: &str, paths: &[&str]) -> Value {
    let paths: Vec<Value> = paths.iter().map(|path| path_to(path, service, json!({"number": 80}))).collect();
    json!({"rules": [{"host": HOST, "http": {"paths": paths}}]})
}

fn canary(name: &str, annotations: &[(&str, &str)], spec: Value) -> Value {
    with(name, &[&[("canary", "true")], annotations].concat(), spec)
}

/// The canaries of all rules of the host, in order.
fn canaries(world: &World) -> Vec<Option<&Canary>> {
    let host = world.host(HOST);
    host.iter().flat_map(|host| &host.rules).map(|rule| rule.policies.canaries.first()).collect()
}

fn codes(world: &World) -> Vec<Code> {
    world.problems().iter().map(|problem| problem.code).collect()
}

#[test]
fn a_canary_is_given_to_the_rule_of_its_host_path_and_type() {
    let mut world = world();
    let annotations = [
        ("canary-by-header", "X-Canary"),
        ("canary-by-header-value", "eu"),
        ("canary-by-header-pattern", "^e"),
        ("canary-by-cookie", "side"),
        ("canary-weight", "7"),
        ("canary-weight-total", "1000"),
    ];
    world.put([
        ingress("main", paths(HOST, &["/", "/a", "=/a"])),
        canary("next", &annotations, to("next", &["/a"])),
    ]);
    let found = canaries(&world);
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
    let found = found[1].unwrap();
    assert_eq!(found.pool.to_string(), "default/next:http (http)");
    let value = CanaryValue::Exact("eu".into());
    assert_eq!(found.header, Some(CanaryHeader { name: "X-Canary".into(), value }));
    assert_eq!(
        (found.cookie.as_deref(), found.weight, found.total, found.sticky),
        (Some("side"), 7, 1000, true)
    );
    assert_eq!(codes(&world), []);
    world.delete(Kind::Ingress, "next");
    assert!(canaries(&world).iter().all(Option::is_none));
}

#[test]
fn a_canary_without_a_type_of_its_own_belongs_to_a_prefix() {
    for (main, next, belongs) in [
        (Some("Prefix"), None, true),
        (Some("Prefix"), Some("ImplementationSpecific"), true),
        (Some("ImplementationSpecific"), Some("Prefix"), true),
        (None, Some("Prefix"), true),
        (Some("Exact"), Some("Exact"), true),
        (Some("Exact"), None, false),
        (Some("ImplementationSpecific"), Some("Exact"), false),
    ] {
        let mut world = world();
        let spec = |service: &str, path_type: Option<&str>| {
            let mut spec = to(service, &["/a"]);
            let path = &mut spec["rules"][0]["http"]["paths"][0];
            path.as_object_mut().unwrap().remove("pathType");
            if let Some(path_type) = path_type {
                path["pathType"] = json!(path_type);
            }
            spec
        };
        world.put([
            ingress("main", spec("web", main)),
            canary("next", &[("canary-weight", "5")], spec("next", next)),
        ]);
        assert_eq!(canaries(&world)[0].is_some(), belongs, "{main:?} {next:?}");
        let reported: &[Code] = if belongs { &[] } else { &[Code::CanaryWithoutMain] };
        assert_eq!(codes(&world), reported, "{main:?} {next:?}");
    }
}

#[test]
fn a_total_below_a_hundred_counts_as_a_hundred() {
    let mut world = world();
    let annotations = [("canary-weight", "5"), ("canary-weight-total", "10")];
    world.put([ingress("main", paths(HOST, &["/"])), canary("next", &annotations, to("next", &["/"]))]);
    assert_eq!(canaries(&world)[0].unwrap().total, 100);
}

#[test]
fn a_canary_without_a_main_ingress_is_reported_and_not_served() {
    let mut world = world();
    world.put([canary("next", &[("canary-weight", "100")], to("next", &["/"]))]);
    assert!(world.host(HOST).is_none());
    assert_eq!(codes(&world), [Code::CanaryWithoutMain]);
    world.put([ingress("main", paths(HOST, &["/x"]))]);
    assert_eq!((codes(&world), canaries(&world)), (vec![Code::CanaryWithoutMain], vec![None, None]));
    world.put([ingress("main", paths(HOST, &["/"]))]);
    assert!(codes(&world).is_empty() && canaries(&world)[0].is_some());
    world.delete(Kind::Ingress, "main");
    assert!(world.host(HOST).is_none());
    assert_eq!(codes(&world), [Code::CanaryWithoutMain]);
    world.delete(Kind::Ingress, "next");
    assert_eq!(codes(&world), []);
}

/// ingress-nginx has a Prefix path `/` for the default backend of an Ingress on its hosts.
#[test]
fn a_canary_for_the_root_belongs_to_a_default_backend() {
    let mut main = paths(HOST, &["/x"]);
    main["defaultBackend"] = backend("web", json!({"number": 80}));
    let mut world = world();
    world.put([ingress("main", main.clone()), canary("next", &[("canary-weight", "5")], to("next", &["/"]))]);
    let has_canary = |world: &World| canaries(world).iter().map(Option::is_some).collect::<Vec<_>>();
    assert_eq!((has_canary(&world), codes(&world)), (vec![false, true], vec![]));
    world.put([canary("next", &[("canary-weight", "5")], to("next", &["=/"]))]);
    assert_eq!((has_canary(&world), codes(&world)), (vec![false; 2], vec![Code::CanaryWithoutMain]));
}

#[test]
fn a_rule_has_as_many_canaries_as_ask_for_it_the_oldest_first() {
    let mut world = world();
    let services = |world: &World| -> Vec<String> {
        let host = world.host(HOST).unwrap();
        host.rules[0].policies.canaries.iter().map(|canary| canary.service.name.to_string()).collect()
    };
    world.put([
        ingress("main", paths(HOST, &["/"])),
        created(canary("young", &[("canary-weight", "50")], to("other", &["/"])), 2),
        created(canary("old", &[("canary-weight", "50")], to("next", &["/"])), 1),
    ]);
    assert_eq!(services(&world), ["next", "other"]);
    assert_eq!(codes(&world), []);
    // More than all cannot be given away; the older one has its share.
    world.put([created(canary("old", &[("canary-weight", "60")], to("next", &["/"])), 1)]);
    assert_eq!(services(&world), ["next", "other"]);
    assert_eq!(codes(&world), [Code::CanaryConflict]);
    assert!(world.texts()[0].contains("default/young"), "{:?}", world.texts());
    world.delete(Kind::Ingress, "old");
    assert_eq!(services(&world), ["other"]);
    assert_eq!(codes(&world), []);
}

#[test]
fn a_slip_in_a_canary_neither_opens_nor_closes_the_main_ingress() {
    let mut world = world();
    world.put([created(ingress("main", paths(HOST, &["/"])), 2)]);
    let plain = world.rules(HOST);
    for (annotations, takes) in [
        (&[("canary", "yes"), ("canary-weight", "5")][..], false),
        (&[("canary", "true"), ("canary-weight", "x")], true),
        (&[("canary", "true"), ("canary-by-header-pattern", "(?C1)"), ("canary-weight", "5")], true),
        (&[("canary", "true"), ("canary-by-header", "a b"), ("canary-weight", "5")], true),
        (&[("canary", "true"), ("canary-by-cookie", "a=b"), ("canary-weight", "5")], true),
    ] {
        // Older than the main one, and with a path of its own.
        world.put([created(with("next", annotations, to("next", &["/", "/own"])), 1)]);
        assert_eq!(world.rules(HOST), plain, "{annotations:?}");
        assert_eq!(canaries(&world)[0].is_some(), takes, "{annotations:?}");
        assert!(codes(&world).contains(&Code::AnnotationInvalid), "{annotations:?}");
    }
}

#[test]
fn forbidden_annotations_reject_a_canary() {
    let options = Options {
        configmap: Some(sluice_config::NamespacedName::new("default", "controller")),
        ..Options::default()
    };
    let mut world = World::ready(options);
    world.put([
        service("next", json!([{"name": "http", "port": 80}])),
        config_map(json!({"annotation-value-word-blocklist": "evil"})),
        ingress("main", paths(HOST, &["/"])),
        canary("next", &[("canary-weight", "5"), ("auth-realm", "evil")], to("next", &["/"])),
    ]);
    assert_eq!((canaries(&world), codes(&world)), (vec![None], vec![Code::AnnotationForbidden]));
}

#[test]
fn ineffective_annotations_of_a_canary_are_named_in_one_warning() {
    let mut world = world();
    let annotations = [
        ("canary-weight", "5"),
        ("ssl-redirect", "maybe"),
        ("backend-protocol", "HTTPS"),
        ("limit-rps", "5"),
    ];
    world.put([ingress("main", paths(HOST, &["/"])), canary("next", &annotations, to("next", &["/"]))]);
    assert_eq!(canaries(&world)[0].unwrap().pool.to_string(), "default/next:http (http)");
    assert_eq!(codes(&world), [Code::CanaryAnnotationIgnored]);
    let text = world.texts()[0].clone();
    assert!(text.contains("backend-protocol, limit-rps, ssl-redirect have no effect"), "{text}");
}

#[test]
fn canary_annotations_without_effect_are_reported() {
    let mut world = world();
    world.put([ingress("main", paths(HOST, &["/"])), canary("next", &[], to("next", &["/"]))]);
    assert_eq!(codes(&world), [Code::CanaryIdle]);
    world.put([with("next", &[("canary-weight", "5")], to("next", &["/other"]))]);
    assert_eq!(codes(&world), [Code::AnnotationWithoutEffect]);
    assert!(world.rules(HOST)[0].starts_with("/other -> next"), "it is an ordinary Ingress");
}

#[test]
fn a_canary_with_a_missing_or_the_main_service_gets_no_traffic() {
    let mut world = world();
    world.put([
        ingress("main", paths(HOST, &["/"])),
        canary("next", &[("canary-weight", "5")], to("gone", &["/"])),
    ]);
    assert_eq!((canaries(&world), codes(&world)), (vec![None], vec![Code::ServiceNotFound]));
    assert!(world.texts()[0].contains("its requests go to the main Ingress"), "{:?}", world.texts());
    world.put([canary("next", &[("canary-weight", "5")], to("web", &["/"]))]);
    assert_eq!((canaries(&world), codes(&world)), (vec![None], vec![Code::CanaryConflict]));
}

#[test]
fn a_canary_has_its_own_load_balancing_and_hash_key() {
    let key = ("upstream-hash-by", "$http_x_key");
    let weight = ("canary-weight", "5");
    for (main, next, pool, has_key) in [
        (&[key][..], &[weight][..], "http", false),
        (&[], &[weight, key], "http,ring", true),
        (&[], &[weight, key, ("upstream-hash-by-subset", "true")], "http", true),
        (&[("load-balance", "ewma")], &[weight], "http", false),
        (&[], &[weight, ("load-balance", "ewma")], "http,ewma", false),
        (&[("sluice.dev/slow-start", "10s")], &[weight], "http, slow start 10s", false),
        (&[("affinity", "cookie")], &[weight, key], "http,ring", false),
        (
            &[("affinity", "cookie")],
            &[weight, ("affinity-canary-behavior", "legacy"), ("load-balance", "ewma")],
            "http,ewma",
            false,
        ),
    ] {
        let mut world = world();
        world.put([with("main", main, paths(HOST, &["/"])), canary("next", next, to("next", &["/"]))]);
        let found = canaries(&world)[0].unwrap();
        assert_eq!(found.pool.to_string(), format!("default/next:http ({pool})"), "{main:?} {next:?}");
        assert_eq!(found.hash_by.is_some(), has_key, "{main:?} {next:?}");
        assert_eq!(codes(&world), [], "{main:?} {next:?}");
    }
}

#[test]
fn a_canary_has_its_own_service_upstream() {
    let by_address = ("service-upstream", "true");
    let weight = ("canary-weight", "5");
    for (main, next, goes_by_address) in
        [(&[by_address][..], &[weight][..], false), (&[], &[weight, by_address], true)]
    {
        let mut world = world();
        let mut addressed = service("next", json!([{"name": "http", "port": 80, "targetPort": 8080}]));
        addressed["spec"]["clusterIP"] = json!("10.96.0.7");
        world.put([addressed]);
        world.put([with("main", main, paths(HOST, &["/"])), canary("next", next, to("next", &["/"]))]);
        let endpoints = &canaries(&world)[0].unwrap().pool.endpoints;
        assert_eq!(*endpoints.service == *"10.96.0.7", goes_by_address, "{endpoints:?}");
    }
}

#[test]
fn a_main_ingress_without_its_service_has_canaries() {
    let mut world = world();
    world.put([
        ingress("main", to("gone", &["/"])),
        canary("next", &[("canary-weight", "5")], to("next", &["/"])),
    ]);
    assert!(canaries(&world)[0].is_some());
    assert_eq!(codes(&world), [Code::ServiceNotFound]);
}

#[test]
fn the_canary_has_the_protocol_and_sessions_of_the_main_ingress() {
    let mut world = world();
    let main = [("backend-protocol", "HTTPS"), ("affinity", "cookie")];
    world.put([
        with("main", &main, paths(HOST, &["/"])),
        canary("next", &[("canary-weight", "5")], to("next", &["/"])),
    ]);
    assert_eq!(canaries(&world)[0].unwrap().pool.to_string(), "default/next:http (https,ring)");
    let legacy = [("canary-weight", "5"), ("affinity-canary-behavior", "legacy")];
    world.put([canary("next", &legacy, to("next", &["/"]))]);
    let found = canaries(&world)[0].unwrap();
    assert_eq!((found.pool.to_string().as_str(), found.sticky), ("default/next:http (https)", false));
}

#[test]
fn a_path_that_is_an_expression_and_the_default_backend_have_canaries_too() {
    let mut world = world();
    let rewriting = [("rewrite-target", "/$1")];
    world.put([
        with("main", &rewriting, to("web", &["/a/(.*)"])),
        canary("next", &[("canary-weight", "5")], to("next", &["/a/(.*)"])),
        ingress("all", json!({"defaultBackend": backend("web", json!({"number": 80}))})),
        canary(
            "all-next",
            &[("canary-weight", "5")],
            json!({"defaultBackend": backend("next", json!({"number": 80}))}),
        ),
    ]);
    let rule = &world.host(HOST).unwrap().rules[0];
    assert!(!rule.policies.canaries.is_empty() && rule.policies.rewrite.is_some());
    assert!(!world.host("_").unwrap().rules[0].policies.canaries.is_empty());
}
