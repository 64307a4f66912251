//! Every line of the class table, and namespaces.

use serde_json::{Value, json};
use sluice_controller::Options;
use sluice_controller::store::Kind;

use crate::support::*;

const OTHER: &str = "example.com/other";

fn shop(field: Option<&str>, annotation: Option<&str>) -> Value {
    let mut object = ingress("shop", paths("shop.example", &["/"]));
    let spec = object["spec"].as_object_mut().unwrap();
    match field {
        Some(field) => drop(spec.insert("ingressClassName".into(), field.into())),
        None => drop(spec.remove("ingressClassName")),
    }
    if let Some(annotation) = annotation {
        object["metadata"]["annotations"]["kubernetes.io/ingress.class"] = annotation.into();
    }
    object
}

fn taken(options: Options, field: Option<&str>, annotation: Option<&str>) -> bool {
    let mut world = World::ready(options);
    world.put([class("other", OTHER), shop(field, annotation)]);
    world.host("shop.example").is_some()
}

#[test]
fn the_class_table() {
    let plain = Options::default;
    let by_name = || Options { ingress_class_by_name: true, ingress_class: "mine".into(), ..plain() };
    let without = || Options { watch_ingress_without_class: true, ..plain() };
    for (options, field, annotation, expected, why) in [
        (plain(), Some("nginx"), None, true, "field names a class of our controller"),
        (plain(), Some("other"), None, false, "field names a class of another controller"),
        (plain(), Some("absent"), None, false, "field names a class that is not there"),
        (plain(), None, Some("nginx"), true, "annotation is ours"),
        (plain(), None, Some("other"), false, "annotation is not ours"),
        (plain(), Some("other"), Some("nginx"), false, "the field decides"),
        (plain(), Some("nginx"), Some("other"), true, "the field decides"),
        (plain(), None, None, false, "neither"),
        (without(), None, None, true, "neither, with the flag"),
        (without(), None, Some("other"), false, "annotation is not ours, with the flag"),
        (by_name(), Some("mine"), None, true, "by name, though there is no such class"),
        (by_name(), Some("absent"), None, false, "by name, another one"),
    ] {
        assert_eq!(taken(options, field, annotation), expected, "{why}");
    }
}

#[test]
fn the_default_class_applies_to_a_folder_only() {
    let mut world = World::ready(Options::default());
    world.put([default_class("nginx", "k8s.io/ingress-nginx"), shop(None, None)]);
    assert!(world.host("shop.example").is_some());
    world.put([created(default_class("newer", OTHER), 1)]);
    assert!(world.host("shop.example").is_none(), "of several defaults the newest counts");
    world.delete(Kind::IngressClass, "newer");
    assert!(world.host("shop.example").is_some());

    let mut cluster = World::ready(Options { apply_default_class: false, ..Options::default() });
    cluster.put([default_class("nginx", "k8s.io/ingress-nginx"), shop(None, None)]);
    assert!(cluster.host("shop.example").is_none());
}

#[test]
fn a_class_that_appears_later_is_taken_up_and_missed_until_then() {
    let mut world = World::ready(Options::default());
    world.put([shop(Some("late"), None)]);
    assert!(world.texts()[0].contains("IngressClass \"late\" does not exist"), "{:?}", world.texts());
    world.put([class("late", "k8s.io/ingress-nginx")]);
    assert!(world.host("shop.example").is_some());
    assert_eq!(world.problems(), []);
    world.put([class("late", OTHER)]);
    assert!(world.host("shop.example").is_none());
    assert_eq!(world.problems(), []);
}

#[test]
fn a_class_taken_from_an_ingress_removes_its_routes() {
    let mut world = World::ready(Options::default());
    world.put([shop(Some("nginx"), None)]);
    assert!(world.host("shop.example").is_some());
    world.put([class("other", OTHER), shop(Some("other"), None)]);
    assert!(world.host("shop.example").is_none());
    assert!(world.mirror.pools.is_empty() && world.mirror.endpoint_sets.is_empty());
}

#[test]
fn namespaces_are_watched_by_name_or_by_label() {
    let elsewhere = Options { watch_namespace: Some("elsewhere".into()), ..Options::default() };
    assert!(!taken(elsewhere, Some("nginx"), None));
    let here = Options { watch_namespace: Some("default".into()), ..Options::default() };
    assert!(taken(here, Some("nginx"), None));

    let by_label =
        Options { watch_namespace_selector: Some("edge in(yes)".parse().unwrap()), ..Options::default() };
    let mut world = World::ready(by_label);
    world.put([shop(Some("nginx"), None)]);
    assert!(world.host("shop.example").is_none());
    let namespace =
        |labels: Value| json!({"kind": "Namespace", "metadata": {"name": "default", "labels": labels}});
    world.put([namespace(json!({"edge": "yes"}))]);
    assert!(world.host("shop.example").is_some(), "labels are looked at live");
    world.put([namespace(json!({"edge": "no"}))]);
    assert!(world.host("shop.example").is_none());
}
