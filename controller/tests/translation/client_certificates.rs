//! The client certificates that a host requires, and which Ingress decides about them.

use std::sync::Arc;

use serde_json::{Value, json};
use sluice_config::{ClientCertificateMode, ClientCertificates, Code, Severity};
use sluice_controller::store::{DataFields, Kind, Needs, Prune};
use sluice_controller::{Options, Stats};

use crate::support::*;

const PREFIX: &str = "nginx.ingress.kubernetes.io";

fn guarded(name: &str, path: &str, annotations: &[(&str, &str)]) -> Value {
    let annotations =
        annotations.iter().map(|(name, value)| (format!("{PREFIX}/auth-tls-{name}"), json!(value)));
    annotated(name, Value::Object(annotations.collect()), paths("shop.example", &[path]))
}

fn in_namespace(namespace: &str, mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!(namespace);
    object
}

fn authorities(name: &str) -> Value {
    let made = sluice_testing::certificate::Authority::new();
    let data = json!({"ca.crt": made.pem(), "ca.crl": made.revocation_list(&[1])});
    json!({"kind": "Secret", "metadata": {"name": name, "namespace": "default"}, "stringData": data})
}

fn policy(world: &World, host: &str) -> Option<Arc<ClientCertificates>> {
    world.host(host)?.client_certificates.clone()
}

fn secret_of(world: &World) -> Option<String> {
    policy(world, "shop.example").map(|policy| policy.verification.authorities.name.to_string())
}

/// Paths that are closed, with the status.
fn closed(world: &World) -> Vec<String> {
    let rules = world.rules("shop.example").into_iter();
    let closed = rules.filter_map(|rule| {
        let (path, status) = (rule.split(' ').next()?, rule.split_once(" denied ")?.1);
        Some(format!("{path} {status}"))
    });
    closed.collect()
}

#[test]
fn the_oldest_ingress_that_names_a_secret_decides_for_all_paths() {
    let mut world = World::ready(Options::default());
    world.put([
        authorities("ours"),
        authorities("theirs"),
        created(guarded("first", "/first", &[]), 1),
        created(guarded("second", "/second", &[("secret", "ours"), ("verify-depth", "3")]), 2),
        created(guarded("third", "/third", &[("secret", "theirs")]), 3),
    ]);
    let chosen = policy(&world, "shop.example").unwrap();
    assert_eq!((chosen.mode, chosen.verification.depth), (ClientCertificateMode::Required, 3));
    assert_eq!(secret_of(&world).as_deref(), Some("default/ours"));
    assert_eq!(closed(&world), [""; 0]);
    let problems = world.problems();
    let [problem] = &problems[..] else { panic!("{:?}", world.texts()) };
    assert_eq!((problem.code, problem.severity), (Code::ClientCertificatesOfSibling, Severity::Warning));
    assert_eq!(&*problem.object.name.name, "third");
    world.delete(Kind::Ingress, "second");
    assert_eq!(secret_of(&world).as_deref(), Some("default/theirs"));
}

#[test]
fn an_edited_secret_is_sent_alone_and_a_missing_one_closes_the_host() {
    let mut world = World::ready(Options::default());
    world
        .put([guarded("shop", "/", &[("secret", "ours")]), ingress("other", paths("other.example", &["/"]))]);
    assert_eq!(closed(&world), ["/ 403"]);
    assert_eq!(policy(&world, "shop.example"), None);
    assert_eq!(world.problems()[0].code, Code::SecretNotFound);
    world.put([authorities("ours")]);
    assert_eq!(closed(&world), [""; 0]);
    assert!(policy(&world, "shop.example").is_some() && policy(&world, "other.example").is_none());
    let edit = world.put([authorities("ours")]);
    assert_eq!(edit.stats, Stats { resources: 1, ..Stats::default() });
    world.put([json!({"kind": "Secret", "metadata": {"name": "ours", "namespace": "default"},
        "stringData": {"ca.crt": "nonsense"}})]);
    assert_eq!(closed(&world), ["/ 403"]);
    assert_eq!(world.problems()[0].code, Code::SecretInvalid);
}

/// As after another use of the Secret, for example as `proxy-ssl-secret`, which needs no list of
/// revoked certificates.
#[test]
fn a_secret_stored_without_its_revocation_list_closes_the_host() {
    let mut world = World::ready(Options::default());
    let needs = Needs::nothing();
    let prune = Prune::with(&Options::default(), needs.clone());
    let secret = authorities("ours");
    needs.set(&key(Kind::Secret, "ours"), Some(DataFields::named(&["ca.crt"])));
    world.update(event(&prune, secret.clone()).into_iter().collect());
    let update = world.put([guarded("shop", "/", &[("secret", "ours")])]);
    let [reference] = &update.references.wanted[..] else { panic!("{:?}", update.references) };
    assert_eq!(closed(&world), ["/ 403"]);
    needs.set(&reference.object, Some(reference.fields.clone()));
    world.update(event(&prune, secret).into_iter().collect());
    assert_eq!(closed(&world), [""; 0]);
    assert!(policy(&world, "shop.example").is_some());
}

#[test]
fn without_verification_no_secret_is_needed() {
    let mut world = World::ready(Options::default());
    world.put([guarded("shop", "/", &[("secret", "missing"), ("verify-client", "off")])]);
    assert_eq!(closed(&world), [""; 0]);
    assert_eq!(policy(&world, "shop.example").unwrap().mode, ClientCertificateMode::Off);
    assert_eq!(world.problems(), []);
}

#[test]
fn ingresses_of_other_namespaces_are_covered_with_a_warning() {
    let mut world = World::ready(Options::default());
    let other = in_namespace("other", ingress("other", paths("shop.example", &["/other"])));
    world.put([
        created(other, 1),
        created(guarded("shop", "/", &[("secret", "ours")]), 2),
        authorities("ours"),
    ]);
    assert!(policy(&world, "shop.example").is_some());
    let told = |world: &World, code| {
        world.problems().iter().any(|problem| problem.code == code && &*problem.object.name.name == "other")
    };
    assert!(told(&world, Code::ClientCertificatesOfSibling), "{:?}", world.texts());
    world.delete(Kind::Secret, "ours");
    assert!(closed(&world).iter().all(|rule| rule.ends_with(" 403")), "{:?}", world.rules("shop.example"));
    assert!(told(&world, Code::HostClosed), "{:?}", world.texts());
}

#[test]
fn an_unusable_secret_of_a_newer_ingress_closes_its_own_paths() {
    let mut world = World::ready(Options::default());
    world.put([
        authorities("ours"),
        created(guarded("old", "/", &[("secret", "ours")]), 1),
        created(guarded("new", "/new", &[("secret", "missing")]), 2),
    ]);
    assert_eq!(closed(&world), ["/new 403"]);
    assert_eq!(secret_of(&world).as_deref(), Some("default/ours"));
}

#[test]
fn a_rejected_ingress_keeps_its_requirement_for_the_host() {
    let mut world = World::ready(Options::default());
    let mut rejected = guarded("old", "/old", &[("secret", "ours")]);
    rejected["metadata"]["annotations"][format!("{PREFIX}/limit-rps")] = json!("many");
    world.put([
        authorities("ours"),
        created(rejected, 1),
        created(ingress("new", paths("shop.example", &["/"])), 2),
    ]);
    assert_eq!(closed(&world), ["/old 404"]);
    assert_eq!(secret_of(&world).as_deref(), Some("default/ours"));
}
