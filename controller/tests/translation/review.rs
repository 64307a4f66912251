//! A review gives the verdict on an object before it is there, at the cost of that object.

use serde_json::json;
use sluice_config::{Class, Code, NamespacedName};
use sluice_controller::store::{Event, Object};
use sluice_controller::{Controller, Options, ReviewVerdict, Stats};

use crate::support::*;

const OTHERS: usize = 5000;

fn review(world: &World, object: serde_json::Value) -> ReviewVerdict {
    let Some(Event::Put(object)) = world.event(object) else { panic!("nothing of it is kept") };
    world.controller.review(object).unwrap()
}

fn crowded() -> World {
    let mut world = World::ready(Options::default());
    world.put((0..OTHERS).map(|n| ingress(&format!("other-{n}"), paths(&format!("h{n}.example"), &["/"]))));
    world
}

#[test]
fn a_review_visits_only_the_nodes_of_its_object() {
    let mut world = crowded();
    let (snapshot, problems) = (world.controller.snapshot(), world.problems());
    let one = Stats { ingresses: 1, hosts: 1, ..Stats::default() };
    let mut bad = paths("h7.example", &["/"]);
    bad["rules"][0]["http"]["paths"][0]["backend"] = backend("absent", json!({"number": 80}));

    let verdict = review(&world, ingress("other-7", bad.clone()));
    assert_eq!(verdict.stats, one);
    let codes: Vec<Code> = verdict.problems.iter().map(|problem| problem.code).collect();
    assert_eq!(codes, [Code::ServiceNotFound]);
    assert_eq!(codes[0].class(), Class::MissingReference);

    let verdict = review(&world, created(ingress("newer", paths("h8.example", &["/"])), 1));
    assert_eq!(verdict.stats, one);
    assert_eq!(verdict.problems[0].code, Code::PathConflict);
    assert!(verdict.problems[0].message.contains("default/other-8"), "{}", verdict.problems[0]);

    // One that moves to another host costs the one it leaves too.
    let verdict = review(&world, ingress("other-9", paths("new.example", &["/"])));
    assert_eq!(verdict.stats, Stats { hosts: 2, ..one });
    assert_eq!(verdict.problems, []);

    assert_eq!((world.controller.snapshot(), world.problems()), (snapshot, problems));
    assert!(world.put([]).delta.is_none());
    assert_eq!(world.put([ingress("other-7", bad)]).stats, one, "as much as the change itself");
}

#[test]
fn a_review_includes_effects_on_other_ingresses() {
    let mut world = World::ready(Options::default());
    world.put([created(ingress("api", paths("shop.example", &["/api"])), 1)]);
    let guarded = json!({"nginx.ingress.kubernetes.io/auth-tls-secret": "default/ca"});
    let verdict = review(&world, annotated("guarded", guarded, paths("shop.example", &["/admin"])));
    let affected: Vec<(&str, Code)> =
        verdict.problems.iter().map(|problem| (&*problem.object.name.name, problem.code)).collect();
    assert_eq!(affected, [("api", Code::HostClosed), ("guarded", Code::SecretNotFound)]);

    let Event::Put(service) = world.event(service("web", json!([{"name": "other", "port": 81}]))).unwrap()
    else {
        panic!()
    };
    assert!(matches!(service, Object::Service(_)));
    let verdict = world.controller.review(service).unwrap();
    assert_eq!(verdict.problems[0].code, Code::ServicePortNotFound);
}

#[test]
fn a_review_skipped_the_endpoints_of_the_default_backend() {
    let name = NamespacedName::new("default", "fallback");
    let mut world = World::ready(Options { default_backend_service: Some(name), ..Options::default() });
    let mut names =
        slice("fallback-1", "fallback", json!([{"name": "http", "port": 1}]), json!(["example.com"]));
    names["addressType"] = "FQDN".into();
    world.put([names]);
    let verdict = review(&world, service("fallback", json!([{"name": "http", "port": 80}])));
    let messages: Vec<&str> = verdict.problems.iter().map(|problem| &*problem.message).collect();
    assert!(messages.iter().any(|message| message.contains("\"FQDN\" is not served")), "{messages:?}");
}

#[test]
fn there_is_no_verdict_before_everything_is_known() {
    let world = World::ready(Options::default());
    let Event::Put(object) = world.event(ingress("shop", paths("shop.example", &["/"]))).unwrap() else {
        panic!()
    };
    assert!(Controller::new(Options::default()).review(object).is_none());
}

#[test]
fn a_review_covers_aliases_of_the_hosts_that_the_object_joins() {
    let mut world = World::ready(Options::default());
    let alias = json!({"nginx.ingress.kubernetes.io/server-alias": "other.example"});
    world.put([created(annotated("shop", alias, paths("shop.example", &["/"])), 2)]);
    assert_eq!(world.problems(), []);
    let mut joining = paths("shop.example", &["/api"]);
    joining["tls"] = json!([{"secretName": "absent"}]);
    let joining = created(ingress("joining", joining), 1);
    let verdict = review(&world, joining.clone());
    assert_eq!(verdict.stats.hosts, 2, "{:?}", verdict.problems);
    world.put([joining]);
    assert_eq!(verdict.problems, world.problems());
}
