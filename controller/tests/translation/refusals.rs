//! What the data plane refuses is a problem of the object that it concerns.

use std::time::Duration;

use serde_json::json;
use sluice_config::{
    Class, Code, Generation, HostName, HostPattern, NamespacedName, ObjectRef, Refusal, Report, Subject,
};
use sluice_controller::Options;

use crate::support::*;

const UID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

fn refused(refusal: Refusal) -> Report {
    Report::Applied {
        generation: Generation(2),
        took: Duration::ZERO,
        refused: vec![refusal],
        accepted: Vec::new(),
    }
}

#[test]
fn a_refused_host_is_a_problem_of_its_ingresses_until_sent_again() {
    let mut world = World::ready(Options::default());
    let mut shop = ingress("shop", paths("shop.example", &["/"]));
    shop["metadata"]["uid"] = UID.into();
    world.put([shop, ingress("cart", paths("shop.example", &["/cart"]))]);
    let pattern = HostPattern::Exact(HostName::new("shop.example"));
    let key = world.mirror.hosts.keys().find(|key| key.pattern == pattern).unwrap().clone();
    let refusal = Refusal {
        subject: Subject::Host(key),
        origin: None,
        code: Code::MatchRefused,
        reason: "too large".into(),
    };
    world.report(&refused(refusal.clone()));
    let problems = world.problems();
    let names: Vec<&str> = problems.iter().map(|problem| &*problem.object.name.name).collect();
    assert_eq!(names, ["cart", "shop"]);
    assert_eq!((problems[1].code, problems[1].code.class()), (Code::MatchRefused, Class::DataPlane));
    assert_eq!(problems[1].uid.as_ref().unwrap().to_string(), UID);
    assert!(problems[1].message.contains("host shop.example"), "{}", problems[1]);

    // Where the rule is known, it is a problem of that rule alone.
    let origin = world.host("shop.example").unwrap().rules[0].origin.clone();
    world.report(&refused(Refusal { origin: Some(Box::new((*origin).clone())), ..refusal }));
    let problems = world.problems();
    assert_eq!(problems.len(), 1);
    assert_eq!(
        (&*problems[0].object.name.name, &*problems[0].field),
        ("cart", "spec.rules[0].http.paths[0]")
    );

    world.put([ingress("cart", paths("shop.example", &["/basket"]))]);
    assert_eq!(world.problems(), []);
}

#[test]
fn a_refused_host_of_an_earlier_configuration_is_a_problem_of_that_host() {
    let mut world = World::ready(Options::default());
    world.put([ingress("shop", paths("shop.example", &["/"]))]);
    let mut key = world.mirror.hosts.keys().next().unwrap().clone();
    key.pattern = HostPattern::Exact(HostName::new("gone.example"));
    let subject = Subject::Host(key);
    world.report(&refused(Refusal {
        subject,
        origin: None,
        code: Code::MatchRefused,
        reason: "too large".into(),
    }));
    assert_eq!(world.problems()[0].object, ObjectRef::new("Host", "", "gone.example"));
}

#[test]
fn a_refused_certificate_is_a_problem_of_its_secret() {
    let mut world = World::ready(Options::default());
    let mut spec = paths("shop.example", &["/"]);
    spec["tls"] = json!([{"hosts": ["shop.example"], "secretName": "tls"}]);
    world.put([tls_secret("tls", &pair(&["shop.example"])), ingress("shop", spec)]);
    world.report(&refused(Refusal {
        subject: Subject::Certificate(NamespacedName::new("default", "tls")),
        origin: None,
        code: Code::CertificateRefused,
        reason: "odd curve".into(),
    }));
    assert_eq!(world.problems()[0].object, ObjectRef::new("Secret", "default", "tls"));
    assert_eq!(world.problems()[0].code, Code::CertificateRefused);
    world.put([tls_secret("tls", &pair(&["shop.example"]))]);
    assert_eq!(world.problems(), []);
}
