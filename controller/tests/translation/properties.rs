//! For any changes in any order, incremental translation has the result of a translation from
//! scratch. The exceptions are a Secret that becomes unusable, which keeps its certificate, the
//! ConfigMap of `--configmap`, whose settings stay when it is deleted, and a deleted IngressClass,
//! which keeps its Ingresses: from scratch, they are first added as they last were.

mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;
use sluice_config::{Code, NamespacedName, Problem, Snapshot};
use sluice_controller::store::{Event, Kind, Object, ObjectKey, Prune, Resolved};
use sluice_controller::{Controller, Options};

use crate::support::*;

#[derive(Clone, Debug)]
enum Change {
    Put(Value),
    Delete(ObjectKey),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => objects::object().prop_map(Change::Put),
        1 => objects::object().prop_map(|object| {
            let kind = Kind::named(object["kind"].as_str().unwrap()).unwrap();
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            Change::Delete(ObjectKey { kind, name: NamespacedName::new(text("namespace"), text("name")) })
        }),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    let named = |name: &str| NamespacedName::new("default", name);
    (any::<[bool; 5]>(), any::<[bool; 3]>()).prop_map(
        move |([selector, catch_all, without, certificate, service], [validate, streams, passthrough])| {
            Options {
                configmap: Some(named("controller")),
                watch_namespace_selector: (selector && catch_all).then(|| "edge=true".parse().unwrap()),
                disable_catch_all: catch_all && without,
                watch_ingress_without_class: without,
                default_ssl_certificate: certificate.then(|| named("t0")),
                default_backend_service: service.then(|| named("s0")),
                enable_annotation_validation: validate,
                enable_topology_aware_routing: validate,
                node_name: Some("n0".into()),
                tcp_services_configmap: streams.then(|| named("tcp")),
                udp_services_configmap: streams.then(|| named("udp")),
                enable_ssl_passthrough: passthrough,
                refuse_local_names: passthrough && streams,
                disable_svc_external_name: passthrough && without,
                ..Options::default()
            }
        },
    )
}

/// Returns the result of every look-up of a name.
fn look_up(name: &str) -> Resolved {
    match name {
        "example.com" => {
            let addresses =
                ["127.0.0.1", "203.0.113.7", "2001:db8::7"].map(|address| address.parse().unwrap());
            Resolved { addresses: addresses.into(), fault: None }
        }
        _ => Resolved { addresses: Vec::new(), fault: Some("no such name".into()) },
    }
}

/// Looks up all names that are needed, after these updates.
fn resolve(controller: &mut Controller, names: impl IntoIterator<Item = Option<BTreeSet<Arc<str>>>>) {
    for name in names.into_iter().flatten().last().into_iter().flatten() {
        let resolved = look_up(&name);
        controller.take_name(name, resolved);
    }
}

/// Translates from scratch. `kept` are last usable versions of Secrets that keep their
/// certificates, and the last versions of a deleted ConfigMap and of deleted IngressClasses.
fn from_scratch(
    options: &Options,
    objects: &BTreeMap<ObjectKey, Event>,
    kept: &BTreeMap<ObjectKey, Event>,
) -> (Snapshot, Vec<Problem>) {
    let mut scratch = Controller::new(options.clone());
    let mut before = objects.clone();
    before.extend(kept.clone());
    let now = |key: &ObjectKey| objects.get(key).cloned().unwrap_or_else(|| Event::Delete(key.clone()));
    let first = scratch.update(before.into_values().collect(), true).names;
    let second = scratch.update(kept.keys().map(now).collect(), true).names;
    resolve(&mut scratch, [first, second]);
    scratch.update(Vec::new(), true);
    (scratch.snapshot(), scratch.problems())
}

/// Records a version of a Secret that is translated and usable.
fn note_usable(usable: &mut BTreeMap<ObjectKey, Event>, event: &Event) {
    if let Event::Put(object) = event
        && let Object::Secret(secret) = object
        && objects::is_usable(secret)
    {
        usable.insert(object.key(), event.clone());
    }
}

/// Returns the Secrets that keep their certificates, as they were when they were last usable.
fn kept(problems: &[Problem], usable: &BTreeMap<ObjectKey, Event>) -> BTreeMap<ObjectKey, Event> {
    let kept = problems.iter().filter(|problem| {
        problem.code == Code::CertificateInvalid && problem.message.contains("stays in force")
    });
    let key = |problem: &Problem| ObjectKey { kind: Kind::Secret, name: problem.object.name.clone() };
    kept.map(key).map(|key| (key.clone(), usable[&key].clone())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn step_by_step_is_from_scratch(options in options(), batches in vec(vec(change(), 1..12), 1..8)) {
        let prune = Prune::new(&options);
        let mut world = World::new(options.clone());
        let mut objects: BTreeMap<ObjectKey, Event> = BTreeMap::new();
        let mut usable: BTreeMap<ObjectKey, Event> = BTreeMap::new();
        let own = key(Kind::ConfigMap, "controller");
        // The last versions of objects that have an effect when they are deleted.
        let mut last: BTreeMap<ObjectKey, Event> = BTreeMap::new();
        world.put([class("nginx", "k8s.io/ingress-nginx")]);
        let nginx = event(&prune, class("nginx", "k8s.io/ingress-nginx")).unwrap();
        objects.insert(key(Kind::IngressClass, "nginx"), nginx.clone());
        last.insert(key(Kind::IngressClass, "nginx"), nginx);
        for batch in batches {
            let mut events = Vec::new();
            for change in batch {
                let event = match change {
                    Change::Put(object) => event(&prune, object).unwrap(),
                    Change::Delete(key) => Event::Delete(key),
                };
                match &event {
                    Event::Put(object) => objects.insert(object.key(), event.clone()),
                    Event::Delete(key) => objects.remove(key),
                    Event::Classes(_) => None,
                };
                if let Event::Put(object) = &event
                    && (object.key() == own || object.kind() == Kind::IngressClass)
                {
                    last.insert(object.key(), event.clone());
                }
                events.push(event);
            }
            let mut names = Vec::new();
            if let Some(Event::Put(object)) = events.first() {
                let key = object.key().object_ref();
                let before: BTreeSet<Problem> = world.problems().into_iter().collect();
                let verdict = world.controller.review(object.clone()).unwrap();
                note_usable(&mut usable, &events[0]);
                names.push(world.update(vec![Event::Put(object.clone())]).names);
                let after = world.problems().into_iter();
                let news: Vec<Problem> =
                    after.filter(|problem| problem.object == key || !before.contains(problem)).collect();
                prop_assert_eq!(verdict.problems, news, "a review is what comes true");
            }
            objects.values().for_each(|event| note_usable(&mut usable, event));
            // Checks that the deltas so far add up to the snapshot, and the changes of problems to
            // all problems.
            names.push(world.update(events).names);
            resolve(&mut world.controller, names);
            world.update(Vec::new());
            let problems = world.problems();
            let mut kept = kept(&problems, &usable);
            kept.extend(last.clone().into_iter().filter(|(key, _)| !objects.contains_key(key)));
            let (snapshot, expected) = from_scratch(&options, &objects, &kept);
            prop_assert_eq!(&world.mirror, &snapshot);
            prop_assert_eq!(problems, expected);
        }
    }
}
