//! A kind whose watches fail while its lists succeed.

use sluice_controller::Options;

use crate::fake::Fake;
use crate::objects::*;
use crate::plane::Plane;

/// Part of the problem's object.
const WATCH: &str = "endpointslices?watch=true";

fn furnished() -> Fake {
    let fake = Fake::start();
    fake.put("ingressclasses", class("nginx"));
    fake.put("services", service());
    fake.put("endpointslices", slice("10.0.0.1"));
    fake.put("ingresses", ingress("web", "web.example", Some("nginx"), None));
    fake
}

/// `set` makes every watch fail with this status, and no list.
fn changes_are_seen_while_watches_fail(set: fn(&Fake, Option<u16>)) {
    let fake = furnished();
    let plane = Plane::start(&fake, Options::default());
    plane.until("the first state", |seen| seen.has("10.0.0.1"));
    set(&fake, Some(500));
    fake.cut("endpointslices");
    for address in ["10.0.0.2", "10.0.0.3"] {
        fake.put("endpointslices", slice(address));
        plane.until("a change by a list", |seen| seen.has(address));
    }
    plane.until("the problem", |seen| seen.problems.contains(WATCH));
    let watched = fake.watched("endpointslices");
    set(&fake, None);
    fake.until_watched("endpointslices", watched + 1);
    fake.put("endpointslices", slice("10.0.0.4"));
    plane.until("a change by the watch", |seen| seen.has("10.0.0.4") && !seen.problems.contains(WATCH));
}

#[test]
fn changes_are_seen_by_lists_and_reported_while_watches_are_refused() {
    changes_are_seen_while_watches_fail(|fake, status| fake.refuse_watches("endpointslices", status));
}

#[test]
fn changes_are_seen_by_lists_and_reported_while_watches_end_with_errors() {
    changes_are_seen_while_watches_fail(|fake, status| fake.fail_watches("endpointslices", status));
}

#[test]
fn a_watch_refused_after_lists_in_pages_stays_a_problem_and_is_relisted() {
    let fake = furnished();
    fake.without_streaming("endpointslices");
    let plane = Plane::start(&fake, Options::default());
    plane.until("the first state", |seen| seen.has("10.0.0.1"));
    fake.refuse_watches("endpointslices", Some(400));
    fake.cut("endpointslices");
    fake.put("endpointslices", slice("10.0.0.2"));
    plane.until("the change and the problem", |seen| {
        seen.has("10.0.0.2") && seen.problems.contains("refuses to list and watch")
    });
    fake.refuse_watches("endpointslices", None);
    plane.until("the end of the problem", |seen| seen.problems.is_empty());
}
