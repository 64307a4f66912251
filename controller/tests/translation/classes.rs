//! The class table and namespaces, row by row.

use serde_json::{Value, json};
use sluice_controller::store::{ClassAccess, Event, IngressChange, Kind};
use sluice_controller::{Options, Update};

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

/// Only edits of served Ingresses get a Sync Event.
#[test]
fn an_edit_of_an_ingress_of_another_class_is_no_edit_of_ours() {
    let mut world = World::ready(Options::default());
    let edited = |update: Update| -> Vec<bool> {
        let changes = update.ingresses.changes.into_iter();
        changes
            .filter_map(|change| match change {
                IngressChange::Seen { edited, .. } => Some(edited),
                _ => None,
            })
            .collect()
    };
    world.put([class("other", OTHER)]);
    assert_eq!(edited(world.put([shop(Some("other"), None)])), [false]);
    assert_eq!(edited(world.put([shop(Some("nginx"), None)])), [true]);
    let mut rejected = shop(Some("nginx"), None);
    rejected["metadata"]["annotations"] = json!({"nginx.ingress.kubernetes.io/proxy-body-size": "x"});
    assert_eq!(edited(world.put([rejected.clone()])), [true], "ours, with a fault");
    assert_eq!(edited(world.put([rejected])), [false], "nothing is new");
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
fn a_deleted_class_keeps_its_ingresses_until_it_has_another_controller() {
    let mut world = World::ready(Options::default());
    world.put([class("ours", "k8s.io/ingress-nginx"), class("theirs", OTHER), shop(Some("ours"), None)]);
    world.delete(Kind::IngressClass, "ours");
    assert!(world.host("shop.example").is_some());
    let text = world.texts().remove(0);
    assert!(text.starts_with("error: ") && text.contains("IngressClass \"ours\" was deleted"), "{text}");
    world.put([class("ours", OTHER)]);
    assert!(world.host("shop.example").is_none());
    world.delete(Kind::IngressClass, "ours");
    assert!(world.host("shop.example").is_none(), "it was not ours");
    world.put([class("ours", "k8s.io/ingress-nginx")]);
    assert!(world.host("shop.example").is_some());
    assert_eq!(world.problems(), []);
    world.put([shop(Some("theirs"), None)]);
    world.delete(Kind::IngressClass, "theirs");
    assert!(world.host("shop.example").is_none());
}

#[test]
fn a_deleted_default_class_keeps_its_ingresses_while_there_is_no_other() {
    let mut world = World::ready(Options::default());
    world.put([default_class("ours", "k8s.io/ingress-nginx"), shop(None, None)]);
    world.delete(Kind::IngressClass, "ours");
    assert!(world.host("shop.example").is_some());
    world.put([default_class("theirs", OTHER)]);
    assert!(world.host("shop.example").is_none());
    world.delete(Kind::IngressClass, "theirs");
    assert!(world.host("shop.example").is_some());
    world.put([class("ours", "k8s.io/ingress-nginx")]);
    assert!(world.host("shop.example").is_none(), "it is no default any more");
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

/// Returns the first state for an Ingress with this field and annotation: ready with it, ready
/// without it, or not ready.
fn start(
    options: Options,
    access: ClassAccess,
    field: Option<&str>,
    annotation: Option<&str>,
    others: bool,
) -> &'static str {
    let options = Options { apply_default_class: false, ..options };
    let mut world = World::new(options);
    let mut events = vec![Event::Classes(access)];
    events.extend(world.event(shop(field, annotation)));
    if others {
        let mut other = ingress("annotated", paths("annotated.example", &["/"]));
        other["spec"].as_object_mut().unwrap().remove("ingressClassName");
        other["metadata"]["annotations"]["kubernetes.io/ingress.class"] = "nginx".into();
        events.extend(world.event(other));
    }
    let update = world.update(events);
    assert_eq!(update.delta.is_some(), world.mirror.complete);
    match (world.mirror.complete, world.host("shop.example").is_some()) {
        (true, true) => "with it",
        (true, false) => "without it",
        (false, _) => "not ready",
    }
}

#[test]
fn a_start_without_the_right_to_classes_is_never_ready_when_empty() {
    use ClassAccess::{Refused, Withheld};
    let plain = Options::default;
    let by_name = || Options { ingress_class_by_name: true, ..plain() };
    let without = || Options { watch_ingress_without_class: true, ..plain() };
    for (options, access, field, annotation, others, expected) in [
        // Refused so far: an Ingress that names a class waits for the right.
        (plain(), Refused, Some("nginx"), None, false, "not ready"),
        (plain(), Refused, Some("nginx"), None, true, "not ready"),
        (plain(), Refused, Some("other"), Some("nginx"), true, "not ready"),
        (without(), Refused, Some("other"), None, true, "not ready"),
        // An Ingress without a class is decided as usual.
        (plain(), Refused, None, Some("nginx"), false, "with it"),
        (plain(), Refused, None, Some("other"), false, "without it"),
        (plain(), Refused, None, None, false, "without it"),
        (without(), Refused, None, None, false, "with it"),
        (by_name(), Refused, Some("nginx"), None, false, "with it"),
        (by_name(), Refused, Some("other"), None, false, "without it"),
        // Refused for a long time: Ingresses that need no class are served, unless there are none.
        (plain(), Withheld, Some("nginx"), None, false, "not ready"),
        (plain(), Withheld, Some("nginx"), None, true, "without it"),
        (plain(), Withheld, Some("other"), Some("nginx"), false, "with it"),
        (without(), Withheld, Some("other"), None, false, "with it"),
    ] {
        let row = format!("{access:?} {field:?} {annotation:?} {others}");
        assert_eq!(start(options, access, field, annotation, others), expected, "{row}");
    }
}

#[test]
fn an_ingress_that_waits_for_its_class_is_named_and_then_served() {
    let mut world = World::new(Options { apply_default_class: false, ..Options::default() });
    let mut events = vec![Event::Classes(ClassAccess::Refused)];
    events.extend(world.event(shop(Some("nginx"), None)));
    let update = world.update(events);
    assert!(!update.problems.is_empty() && update.delta.is_none());
    let texts = world.texts();
    assert!(texts.len() == 1 && texts[0].contains("not ready"), "{texts:?}");
    assert!(texts[0].contains("Ingress default/shop (one of 1)"), "{texts:?}");
    // If other Ingresses need no class, the state is ready without the right, and the Ingress is
    // reported.
    world.update(vec![Event::Classes(ClassAccess::Withheld)]);
    assert!(!world.mirror.complete);
    let mut other = shop(None, Some("nginx"));
    other["metadata"]["name"] = "other".into();
    other["spec"]["rules"][0]["host"] = "other.example".into();
    world.put([other]);
    assert!(world.mirror.complete && world.host("other.example").is_some());
    assert!(world.texts().iter().any(|text| text.contains("the controller of class \"nginx\" is unknown")));
    // Once the right is granted, the Ingress is served.
    let class = world.event(class("nginx", "k8s.io/ingress-nginx"));
    world.update(class.into_iter().chain([Event::Classes(ClassAccess::Listed)]).collect());
    assert!(world.host("shop.example").is_some() && world.host("other.example").is_some());
    assert!(!world.texts().iter().any(|text| text.contains("the controller of class")));
}
