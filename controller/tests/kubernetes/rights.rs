//! Granted and revoked rights, and other refusals: listed objects stay, and the source recovers.

use sluice_config::NamespacedName;
use sluice_controller::Options;

use crate::fake::Fake;
use crate::objects::*;
use crate::plane::{Plane, words};

/// A watched resource, a change of it, and the word by which the change is recognised.
type Row = (&'static str, fn(&Fake), &'static str);
const ROWS: [Row; 7] = [
    (
        "ingresses",
        |fake| fake.put("ingresses", ingress("late", "late.example", Some("nginx"), None)),
        "late.example",
    ),
    ("ingressclasses", |fake| fake.put("ingressclasses", class("other")), "other.example"),
    ("endpointslices", |fake| fake.put("endpointslices", slice("10.0.0.2")), "10.0.0.2"),
    ("secrets", |fake| fake.put("secrets", secret("tls", "new.example")), "cert:new.example"),
    ("configmaps", |fake| fake.put("configmaps", config_map(307)), "code:307"),
    ("namespaces", |fake| fake.put("namespaces", second_namespace()), "second.example"),
    // The last row, because the change removes the endpoints of the former port.
    ("services", |fake| fake.put("services", named_port()), "10.0.0.9"),
];

fn named_port() -> serde_json::Value {
    let mut service = service();
    service["spec"]["ports"][0]["name"] = "other".into();
    service
}

fn second_namespace() -> serde_json::Value {
    let mut namespace = namespace("yes");
    namespace["metadata"]["name"] = "second".into();
    namespace
}

fn options() -> Options {
    Options {
        configmap: Some(NamespacedName::new("shop", "settings")),
        watch_namespace_selector: "edge in(yes)".parse().ok(),
        ..Options::default()
    }
}

/// A server with objects of every resource, as the rows need them.
fn furnished() -> Fake {
    let fake = Fake::start();
    fake.put("ingressclasses", class("nginx"));
    fake.put("namespaces", namespace("yes"));
    fake.put("services", service());
    fake.put("endpointslices", slice("10.0.0.1"));
    fake.put("secrets", secret("tls", "web.example"));
    fake.put("configmaps", config_map(302));
    fake.put("ingresses", ingress("web", "web.example", Some("nginx"), Some("tls")));
    fake.put("ingresses", ingress("other", "other.example", Some("other"), None));
    let mut second = ingress("web", "second.example", Some("nginx"), None);
    second["metadata"]["namespace"] = "second".into();
    fake.put("ingresses", second);
    let mut renamed = slice("10.0.0.9");
    renamed["metadata"]["name"] = "web-2".into();
    renamed["ports"][0]["name"] = "other".into();
    fake.put("endpointslices", renamed);
    fake
}

const WHOLE: [&str; 4] = ["web.example", "10.0.0.1", "cert:web.example", "code:302"];

/// Returns the text that the problem must contain.
fn said(resource: &str, status: u16) -> &str {
    match status {
        401 => "does not accept the gateway's credentials (401)",
        403 if resource == "ingressclasses" => "no right to list and watch",
        403 => "no right to list and watch",
        404 => "(404)",
        _ => "refuses to list and watch",
    }
}

#[test]
fn listed_objects_stay_after_any_refusal_until_it_ends() {
    let furnished = || {
        let fake = furnished();
        let plane = Plane::start(&fake, options());
        plane.until("the first state", |seen| WHOLE.iter().all(|word| seen.has(word)));
        (fake, plane)
    };
    for status in [401, 403, 404, 418, 500] {
        let (fake, plane) = furnished();
        for (resource, change, word) in ROWS {
            let before = plane.now();
            fake.refuse(resource, Some(status));
            fake.cut(resource);
            if status < 500 {
                let text = format!("{resource} {status}");
                let seen = plane.until(&text, |seen| seen.problems.contains(said(resource, status)));
                assert!(seen.problems.contains("what was listed before stays in force"), "{}", seen.problems);
                assert!(seen.problems.contains(resource), "{text}: {}", seen.problems);
            }
            fake.until_asked(resource, 3);
            assert_eq!(words(&plane.now().state), words(&before.state), "{resource} {status}");
            change(&fake);
            fake.refuse(resource, None);
            let seen = plane.until(&format!("{resource} after {status}"), |seen| {
                seen.has(word) && !seen.problems.contains(said(resource, status))
            });
            assert!(resource == "services" || seen.lost.is_empty(), "{resource} {status}: {:?}", seen.lost);
        }
    }
}

#[test]
fn expired_versions_during_a_missing_right_remove_nothing() {
    for (resource, change, word) in ROWS {
        let fake = furnished();
        let plane = Plane::start(&fake, options());
        let before = plane.until("the first state", |seen| WHOLE.iter().all(|word| seen.has(word)));
        fake.refuse(resource, Some(403));
        fake.expire(resource);
        plane.until(resource, |seen| seen.problems.contains(said(resource, 403)));
        fake.until_asked(resource, 3);
        assert_eq!(words(&plane.now().state), words(&before.state), "{resource}");
        change(&fake);
        fake.refuse(resource, None);
        plane.until(resource, |seen| seen.has(word) && !seen.problems.contains(said(resource, 403)));
    }
}

#[test]
fn a_start_without_a_right_is_ready_once_it_is_granted() {
    for (resource, _, _) in ROWS {
        for status in [401, 403, 500] {
            let fake = furnished();
            fake.refuse(resource, Some(status));
            let plane = Plane::start(&fake, options());
            if status < 500 {
                let seen = plane.until(resource, |seen| seen.problems.contains(said(resource, status)));
                assert!(!seen.is_ready(), "{resource} {status}");
            }
            fake.until_asked(resource, 4);
            assert!(!plane.now().is_ready(), "{resource} {status}");
            fake.refuse(resource, None);
            let seen = plane.until("the first state", |seen| seen.is_ready());
            for word in WHOLE {
                let first = words(seen.first.as_ref().unwrap());
                assert!(first.split(' ').any(|other| other == word), "{resource} {status}: {word}: {first}");
            }
            plane.until("no problem of it", |seen| !seen.problems.contains(said(resource, status)));
        }
    }
}

#[test]
fn without_classes_a_start_names_a_waiting_ingress() {
    let fake = furnished();
    fake.refuse("ingressclasses", Some(403));
    let plane = Plane::start(&fake, options());
    let seen = plane.until("the reason", |seen| seen.problems.contains("not ready: without the right"));
    assert!(seen.problems.contains("Ingress shop/other (one of 2)"), "{}", seen.problems);
    assert!(seen.problems.contains("ClusterRole") && seen.problems.contains("--ingress-class-by-name"));
    assert!(!seen.is_ready());
    // The Ingresses get the annotation instead.
    for name in ["web", "other"] {
        fake.put("ingresses", annotated(name, &format!("{name}.example"), "nginx"));
    }
    let seen = plane.until("the first state", |seen| seen.is_ready());
    assert!(seen.has("web.example") && seen.has("other.example"), "{}", seen.words());
    plane.until("the reason to be gone", |seen| !seen.problems.contains("not ready"));
}

#[test]
fn without_classes_annotations_and_names_do_at_once() {
    let fake = furnished();
    fake.refuse("ingressclasses", Some(403));
    let by_name = Options { ingress_class_by_name: true, ..options() };
    let plane = Plane::start(&fake, by_name);
    let seen = plane.until("the first state", |seen| seen.is_ready());
    assert!(WHOLE.iter().all(|word| seen.has(word)) && !seen.has("other.example"), "{}", seen.words());

    let fake = furnished();
    fake.refuse("ingressclasses", Some(403));
    fake.put("ingresses", annotated("web", "web.example", "nginx"));
    fake.put("ingresses", annotated("other", "other.example", "another"));
    let plane = Plane::start(&fake, options());
    let seen = plane.until("the first state", |seen| seen.is_ready());
    assert!(seen.has("web.example") && !seen.has("other.example"), "{}", seen.words());
    assert!(seen.problems.contains("Ingresses are taken by the annotation"), "{}", seen.problems);
    // A later Ingress that names a class waits for the right; no other one does.
    fake.put("ingresses", ingress("late", "late.example", Some("nginx"), None));
    let seen = plane.until("the Ingress that waits", |seen| seen.problems.contains("shop/late"));
    assert!(seen.has("web.example") && !seen.has("late.example"), "{}", seen.words());
    fake.refuse("ingressclasses", None);
    plane.until("the right to count", |seen| seen.has("late.example"));
    assert!(plane.now().lost.is_empty());
}
