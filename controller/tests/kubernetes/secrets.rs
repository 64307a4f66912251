//! Secrets that are requested by name because the watch delivered them before they were referenced.

use sluice_controller::Options;

use crate::fake::Fake;
use crate::objects::*;
use crate::plane::Plane;

/// Returns a server and a plane whose watch has already passed the Secret `tls`, which is not
/// referenced yet.
fn furnished() -> (Fake, Plane) {
    let fake = Fake::start();
    fake.put("secrets", secret("tls", "old.example"));
    fake.put("ingressclasses", class("nginx"));
    fake.put("services", service());
    fake.put("endpointslices", slice("10.0.0.1"));
    fake.put("ingresses", ingress("web", "web.example", Some("nginx"), None));
    let plane = Plane::start(&fake, Options::default());
    plane.until("the first state", |seen| seen.is_ready());
    (fake, plane)
}

fn refer(fake: &Fake, secret: Option<&str>) {
    fake.put("ingresses", ingress("web", "web.example", Some("nginx"), secret));
}

#[test]
fn a_secret_that_cannot_be_fetched_is_a_problem_until_it_is_fetched() {
    for status in [401, 403, 404, 418] {
        let (fake, plane) = furnished();
        fake.refuse_one("secrets", Some(status));
        refer(&fake, Some("tls"));
        let seen = plane.until("the problem", |seen| seen.problems.contains("served as if it were missing"));
        assert!(seen.problems.contains("Secret shop/tls"), "{}", seen.problems);
        fake.refuse_one("secrets", None);
        plane.until("the Secret", |seen| seen.has("cert:old.example") && seen.problems.is_empty());
    }
}

#[test]
fn an_obsolete_fetch_leaves_no_problem() {
    let (fake, plane) = furnished();
    fake.refuse_one("secrets", Some(403));
    refer(&fake, Some("tls"));
    plane.until("the problem", |seen| seen.problems.contains("served as if it were missing"));
    refer(&fake, None);
    plane.until("its end", |seen| seen.problems.is_empty());
    // The watch delivers it without a request by name.
    refer(&fake, Some("tls"));
    plane.until("the problem again", |seen| seen.problems.contains("served as if it were missing"));
    fake.put("secrets", secret("tls", "new.example"));
    plane.until("the Secret", |seen| seen.has("cert:new.example") && seen.problems.is_empty());
}

#[test]
fn secrets_without_a_right_do_not_block_others() {
    let (fake, plane) = furnished();
    fake.refuse_one("secrets", Some(403));
    // More than may be requested at a time, and fewer than make a list cheaper.
    for n in 0..12 {
        let (name, host) = (format!("n{n}"), format!("n{n}.example"));
        fake.put("ingresses", ingress(&name, &host, Some("nginx"), Some(&name)));
    }
    plane.until("all of them to be tried", |seen| seen.problems.matches("served as if").count() == 12);
    fake.refuse_one("secrets", None);
    fake.put("secrets", secret("n11", "n11.example"));
    plane.until("the last of them", |seen| seen.has("cert:n11.example"));
}

#[test]
fn release_and_request_during_a_slow_fetch_yield_the_newest_answer() {
    let (fake, plane) = furnished();
    fake.put("secrets", secret("mark", "first.example"));
    fake.put("ingresses", ingress("mark", "mark.example", Some("nginx"), Some("mark")));
    plane.until("another Secret", |seen| seen.has("cert:first.example"));
    fake.hold("secrets", 2);
    refer(&fake, Some("tls"));
    fake.until_held("secrets", 1);
    // The Secret changes while it is not referenced, so the watch's event is ignored. The event of
    // the other, referenced Secret follows it.
    refer(&fake, None);
    fake.put("ingresses", ingress("seen", "seen.example", Some("nginx"), None));
    plane.until("the release to be known", |seen| seen.has("seen.example"));
    fake.put("secrets", secret("tls", "new.example"));
    fake.put("secrets", secret("mark", "marked.example"));
    plane.until("the change to have passed", |seen| seen.has("cert:marked.example"));
    refer(&fake, Some("tls"));
    fake.until_held("secrets", 2);
    // The first response is older, and must not replace the second.
    fake.release("secrets", 1);
    fake.put("ingresses", ingress("late", "late.example", Some("nginx"), None));
    let seen = plane.until("a change after it", |seen| seen.has("late.example"));
    assert!(!seen.has("cert:old.example"), "{}", seen.words());
    fake.release("secrets", 1);
    let seen = plane.until("the second answer", |seen| seen.has("cert:new.example"));
    assert!(!seen.has("cert:old.example"), "{}", seen.words());
}

#[test]
fn four_hundred_new_ingresses_do_not_cause_four_hundred_lists_of_secrets() {
    let (fake, plane) = furnished();
    let mut certificate = secret("n", "*.many.example");
    for n in 0..400 {
        certificate["metadata"]["name"] = format!("n{n}").into();
        fake.put("secrets", certificate.clone());
    }
    let before = fake.asked("secrets");
    for n in 0..400 {
        let (name, host) = (format!("n{n}"), format!("n{n}.many.example"));
        fake.put("ingresses", ingress(&name, &host, Some("nginx"), Some(&name)));
    }
    plane.until("all certificates", |seen| seen.state.certificates.len() == 400);
    let count = fake.asked("secrets") - before;
    println!("400 Secrets were read with {count} requests");
    assert!(count <= 60, "{count} requests");
    // The watch continues.
    certificate = secret("n7", "n7.many.example");
    fake.put("secrets", certificate);
    plane.until("a change", |seen| seen.has("cert:n7.many.example"));
}
