//! Undecodable objects: one does not fail a list, and its last good state is kept. Lists that are
//! cut.

use serde_json::json;
use sluice_controller::Options;

use crate::fake::Fake;
use crate::objects::*;
use crate::plane::Plane;

fn furnished(streaming: bool) -> Fake {
    let fake = Fake::start();
    for resource in ["ingresses", "ingressclasses", "services", "endpointslices", "secrets"] {
        if !streaming {
            fake.without_streaming(resource);
        }
    }
    fake.put("ingressclasses", class("nginx"));
    fake.put("services", service());
    fake.put("endpointslices", slice("10.0.0.1"));
    fake.put("ingresses", ingress("web", "web.example", Some("nginx"), None));
    fake
}

/// An Ingress that cannot be decoded.
fn odd(name: &str) -> serde_json::Value {
    json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {"rules": "all of them"}})
}

#[test]
fn one_object_that_cannot_be_read_is_left_out_of_a_list_and_named() {
    for streaming in [true, false] {
        let fake = furnished(streaming);
        fake.put("ingresses", odd("odd"));
        // More than a page before and after it.
        for n in 0..150 {
            fake.put("ingresses", ingress(&format!("n{n}"), &format!("n{n}.example"), Some("nginx"), None));
        }
        let plane = Plane::start(&fake, Options::default());
        let seen = plane.until("the first state", |seen| seen.is_ready());
        assert!(["web.example", "n0.example", "n149.example"].iter().all(|host| seen.has(host)));
        let seen = plane.until("the problem", |seen| seen.problems.contains("Ingress shop/odd"));
        assert!(!seen.problems.contains("all of them"), "{}", seen.problems);
        // The problem is resolved by the object itself, without another list.
        fake.put("ingresses", ingress("odd", "odd.example", Some("nginx"), None));
        plane
            .until("the object", |seen| seen.has("odd.example") && !seen.problems.contains("cannot be read"));
        fake.put("ingresses", odd("other"));
        plane.until("another", |seen| seen.problems.contains("Ingress shop/other"));
        fake.delete("ingresses", "shop", "other");
        plane.until("its end", |seen| !seen.problems.contains("cannot be read"));
        assert!(plane.now().lost.is_empty());
    }
}

#[test]
fn an_object_that_becomes_unreadable_keeps_its_state() {
    for streaming in [true, false] {
        let fake = furnished(streaming);
        let plane = Plane::start(&fake, Options::default());
        plane.until("the first state", |seen| seen.has("web.example"));
        fake.put("ingresses", odd("web"));
        plane.until("the problem", |seen| seen.problems.contains("Ingress shop/web"));
        fake.expire("ingresses");
        fake.put("ingresses", ingress("late", "late.example", Some("nginx"), None));
        let seen = plane.until("the next list", |seen| seen.has("late.example"));
        assert!(seen.has("web.example") && seen.problems.contains("Ingress shop/web"), "{}", seen.words());
        fake.delete("ingresses", "shop", "web");
        plane.until("its end", |seen| !seen.has("web.example") && seen.problems.is_empty());
    }
}

#[test]
fn an_object_without_a_name_removes_no_other() {
    let fake = furnished(false);
    let plane = Plane::start(&fake, Options::default());
    plane.until("the first state", |seen| seen.has("web.example"));
    fake.put("ingresses", json!({"metadata": {"name": 7}}));
    let seen = plane.until("the problem", |seen| seen.problems.contains("without a name"));
    assert!(seen.has("web.example"));
    fake.expire("ingresses");
    fake.put("ingresses", ingress("late", "late.example", Some("nginx"), None));
    plane.until("the next list", |seen| seen.has("late.example"));
    assert!(plane.now().lost.is_empty());
}

#[test]
fn an_unreadable_secret_is_a_problem_only_if_referenced() {
    let fake = furnished(true);
    let odd = |name: &str| json!({"metadata": {"name": name, "namespace": "shop"}, "data": {"tls.key": 7}});
    fake.put("secrets", odd("unused"));
    fake.put("secrets", odd("tls"));
    fake.put("ingresses", ingress("web", "web.example", Some("nginx"), Some("tls")));
    let plane = Plane::start(&fake, Options::default());
    let seen = plane.until("the problem", |seen| seen.problems.contains("Secret shop/tls"));
    assert!(!seen.problems.contains("unused"), "{}", seen.problems);
    fake.put("secrets", secret("tls", "web.example"));
    plane.until("the Secret", |seen| seen.has("cert:web.example") && seen.problems.is_empty());
}

#[test]
fn a_streamed_list_that_is_always_cut_falls_back_to_pages() {
    let fake = furnished(true);
    fake.put("ingresses", ingress("late", "late.example", Some("nginx"), None));
    fake.cut_streamed_lists("ingresses");
    let plane = Plane::start(&fake, Options::default());
    plane.until("the first state", |seen| seen.has("web.example"));
    fake.put("ingresses", ingress("next", "next.example", Some("nginx"), None));
    plane.until("a change by the watch", |seen| seen.has("next.example") && seen.problems.is_empty());
    fake.expire("ingresses");
    fake.delete("ingresses", "shop", "late");
    // Only a complete list shows that an object is missing.
    plane.until("the next list", |seen| !seen.has("late.example") && seen.has("web.example"));
}
