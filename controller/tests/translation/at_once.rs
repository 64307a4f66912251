//! All faults of an object are reported at once, even if one of them closes it, so that an Ingress
//! is corrected once.

use serde_json::{Value, json};
use sluice_config::{Code, Severity};
use sluice_controller::Options;

use crate::support::*;

fn shop(annotations: &[(&str, &str)], spec: Value) -> Value {
    with("shop", annotations, spec)
}

/// Code and field of each problem, annotations by their names.
fn reported(world: &World) -> Vec<(Code, String)> {
    let short = |field: &str| field.replace("metadata.annotations[nginx.ingress.kubernetes.io/", "[");
    let mut reported: Vec<_> =
        world.problems().iter().map(|problem| (problem.code, short(&problem.field))).collect();
    reported.sort();
    reported
}

fn sorted(expected: &[(Code, &str)]) -> Vec<(Code, String)> {
    let mut expected: Vec<_> = expected.iter().map(|(code, field)| (*code, (*field).to_owned())).collect();
    expected.sort();
    expected
}

#[test]
fn a_rejecting_fault_hides_no_other_fault() {
    let mut spec = paths("shop.example", &["/a(?C1)", "/c", "/"]);
    spec["rules"][0]["http"]["paths"][1]["backend"] = backend("gone", json!({"number": 80}));
    spec["tls"] = json!([{"hosts": ["shop.example"], "secretName": "no-tls"}]);
    let faults = [
        ("use-regex", "true"),
        ("rewrite-target", "/$1"),
        ("auth-type", "digest"),
        ("auth-secret", "nobody"),
        ("auth-url", "http://auth.example/"),
        ("auth-proxy-set-headers", "no-fields"),
        ("proxy-read-timeout", "long"),
        ("default-backend", "no-pages"),
    ];
    let mut expected = vec![
        (Code::PathUnusual, "spec.rules[0].http.paths[0].path"),
        (Code::ExpressionInvalid, "spec.rules[0].http.paths[0].path"),
        (Code::RewriteGroupMissing, "spec.rules[0].http.paths[1].path"),
        (Code::RewriteGroupMissing, "spec.rules[0].http.paths[2].path"),
        (Code::ServiceNotFound, "spec.rules[0].http.paths[1].backend.service"),
        (Code::SecretNotFound, "spec.tls[0].secretName"),
        (Code::SecretNotFound, "[auth-secret]"),
        (Code::ConfigMapNotFound, "[auth-proxy-set-headers]"),
        (Code::AnnotationInvalid, "[proxy-read-timeout]"),
        (Code::ServiceNotFound, "[default-backend]"),
    ];
    let mut world = World::ready(Options::default());
    // The other problems are reported with any set of closing ones, in any order.
    world.put([shop(&faults, spec.clone())]);
    let read: Vec<_> = reported(&world).into_iter().map(|(code, field)| (code, bare(&field))).collect();
    assert_eq!(read, sorted(&expected));
    assert_eq!(world.rules("shop.example").len(), 3);
    world.put([shop(&[&faults[..], &[("limit-rps", "many")]].concat(), spec)]);
    expected.push((Code::AnnotationInvalid, "[limit-rps]"));
    let read: Vec<_> = reported(&world).into_iter().map(|(code, field)| (code, bare(&field))).collect();
    assert_eq!(read, sorted(&expected));
    let closed = world.texts().into_iter().filter(|text| text.contains("answer 404")).count();
    assert_eq!(closed, 1, "what rejects it: {:?}", world.texts());
}

/// Returns a field by its short name.
fn bare(field: &str) -> String {
    field.strip_suffix(".name").unwrap_or(field).to_owned()
}

#[test]
fn a_closed_ingress_names_its_secret_and_opens_when_all_is_well() {
    let mut world = World::ready(Options::default());
    let auth = [("auth-type", "basic"), ("auth-secret", "users")];
    let spec = || paths("shop.example", &["/"]);
    world.put([shop(&[&auth[..], &[("limit-rps", "many")]].concat(), spec())]);
    assert_eq!(
        reported(&world),
        sorted(&[(Code::AnnotationInvalid, "[limit-rps]"), (Code::SecretNotFound, "[auth-secret]")])
    );
    assert!(world.mirror.resources.is_empty(), "what is closed uses nothing");
    world.put([json!({"kind": "Secret", "metadata": {"name": "users", "namespace": "default"},
                      "stringData": {"auth": "ann:{PLAIN}x"}})]);
    assert_eq!(reported(&world), sorted(&[(Code::AnnotationInvalid, "[limit-rps]")]));
    assert!(world.mirror.resources.is_empty());
    world.put([shop(&auth, spec())]);
    assert_eq!(reported(&world), []);
    assert_eq!(world.mirror.resources.len(), 1);
}

#[test]
fn a_missing_companion_annotation_is_reported_once() {
    let mut world = World::ready(Options::default());
    let spec = || paths("shop.example", &["/"]);
    world.put([shop(&[("limit-rps", "many"), ("auth-type", "basic")], spec())]);
    assert_eq!(
        reported(&world),
        sorted(&[(Code::AnnotationInvalid, "[auth-type]"), (Code::AnnotationInvalid, "[limit-rps]")])
    );
    world.put([shop(&[("auth-type", "Negotiate"), ("auth-secret", "users")], spec())]);
    assert_eq!(reported(&world), sorted(&[(Code::AnnotationInvalid, "[auth-type]")]), "its type is there");
}

#[test]
fn a_rejected_canary_has_its_paths_and_backends_looked_at() {
    let mut world = World::ready(Options::default());
    let mut spec = paths("shop.example", &["/", "/nowhere"]);
    spec["rules"][0]["http"]["paths"][0]["backend"] = backend("gone", json!({"number": 80}));
    world.put([
        ingress("main", paths("shop.example", &["/"])),
        shop(&[("canary", "maybe"), ("canary-weight", "10")], spec),
    ]);
    let codes: Vec<Code> = reported(&world).into_iter().map(|(code, _)| code).collect();
    let mut expected = vec![Code::AnnotationInvalid, Code::ServiceNotFound, Code::CanaryWithoutMain];
    expected.sort();
    assert_eq!(codes, expected, "{:?}", world.texts());
}

#[test]
fn a_sibling_owned_by_another_ingress_is_no_error() {
    let mut world = World::ready(Options::default());
    world.put([
        created(ingress("www", paths("www.shop.example", &["/"])), 1),
        shop(&[("from-to-www-redirect", "true")], paths("shop.example", &["/"])),
    ]);
    let problems = world.problems();
    let [problem] = &problems[..] else { panic!("{:?}", world.texts()) };
    assert_eq!((problem.code, problem.severity), (Code::AliasConflict, Severity::Warning));
    world.put([shop(&[("server-alias", "www.shop.example")], paths("shop.example", &["/"]))]);
    assert_eq!(world.problems()[0].severity, Severity::Error);
}
