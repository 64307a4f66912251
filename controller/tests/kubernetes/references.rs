//! Referenced objects: Secrets with more than one purpose, and ConfigMaps, which many clusters
//! never need.

use serde_json::{Value, json};
use sluice_config::{GroupId, NamespacedName, StreamKey, TransportProtocol};
use sluice_controller::source::kube::{ApiAccess, KubeSource};
use sluice_controller::store::{DataFields, Event, Kind, Object, ObjectKey, Progress, Reference, References};
use sluice_controller::{Input, Options, input};
use tokio::sync::mpsc::{Receiver, UnboundedSender};

use crate::fake::Fake;
use crate::objects::*;
use crate::plane::{PATIENCE, Plane};

/// A source without a translation: the test chooses the references.
struct Source {
    runtime: tokio::runtime::Runtime,
    inputs: Receiver<Input>,
    references: UnboundedSender<References>,
    /// ConfigMaps by name, with their data.
    maps: Vec<(String, String)>,
    progress: Progress,
    problems: String,
    _source: KubeSource,
}

impl Source {
    /// Returns a source that has listed everything except referenced objects.
    fn start(fake: &Fake) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let access = ApiAccess::Server { url: fake.url(), authority: None };
        let (sender, inputs) = input::channel();
        let source = runtime.block_on(KubeSource::start(access, &Options::default(), sender)).unwrap();
        let (maps, problems) = (Vec::new(), String::new());
        let references = source.references();
        let progress = Progress::Reading;
        let mut this = Self { runtime, inputs, references, maps, progress, problems, _source: source };
        this.until("the first lists", |source| source.progress >= Progress::AllButReferred);
        this
    }

    fn want(&self, wanted: &[(&str, DataFields)]) {
        let wanted =
            wanted.iter().map(|(name, fields)| Reference { object: key(name), fields: fields.clone() });
        self.references.send(References { wanted: wanted.collect(), released: Vec::new() }).unwrap();
    }

    fn release(&self, name: &str) {
        self.references.send(References { wanted: Vec::new(), released: vec![key(name)] }).unwrap();
    }

    fn until(&mut self, what: &str, is_it: impl Fn(&Self) -> bool) {
        while !is_it(self) {
            let batch = self.inputs.recv();
            let batch = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, batch).await });
            let Ok(Some(Input::Batch(batch))) = batch else {
                panic!("waited for {what}: {:?} {}", self.maps, self.problems)
            };
            self.progress = self.progress.max(batch.progress);
            if let Some(problems) = batch.problems {
                self.problems = problems.iter().map(ToString::to_string).collect();
            }
            for event in batch.events {
                match event {
                    Event::Put(Object::ConfigMap(map)) => {
                        self.forget(&map.name.name);
                        let data: Vec<String> =
                            map.data.iter().map(|(key, value)| format!("{key}={value}")).collect();
                        self.maps.push((map.name.name.to_string(), data.join(" ")));
                    }
                    Event::Delete(ObjectKey { kind: Kind::ConfigMap, name }) => self.forget(&name.name),
                    _ => {}
                }
            }
        }
    }

    fn forget(&mut self, name: &str) {
        self.maps.retain(|(known, _)| known != name);
    }

    fn until_map(&mut self, name: &str, data: &str) {
        self.until(data, |source| source.maps.contains(&(name.into(), data.into())));
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey { kind: Kind::ConfigMap, name: NamespacedName::new("shop", name) }
}

fn map(name: &str, data: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop"}, "data": data})
}

#[test]
fn config_maps_are_read_when_something_refers_to_one_and_only_that_one() {
    let fake = Fake::start();
    // Without a reference, no right to ConfigMaps is needed.
    fake.refuse("configmaps", Some(403));
    let mut source = Source::start(&fake);
    source.references.send(References::default()).unwrap();
    source.until("the first state", |source| source.progress == Progress::Complete);
    assert_eq!(source.problems, "");
    fake.refuse("configmaps", None);
    fake.put("configmaps", map("a", json!({"x": "1", "y": "2"})));
    fake.put("configmaps", map("b", json!({"x": "3"})));

    source.want(&[("a", DataFields::All)]);
    source.until_map("a", "x=1 y=2");
    fake.put("configmaps", map("a", json!({"x": "4"})));
    source.until_map("a", "x=4");
    assert_eq!(source.maps.len(), 1, "{:?}", source.maps);
    // The watch has delivered one of them already, and not yet the other one.
    source.want(&[("b", DataFields::All), ("c", DataFields::All)]);
    source.until_map("b", "x=3");
    fake.put("configmaps", map("c", json!({"x": "5"})));
    source.until_map("c", "x=5");
    fake.delete("configmaps", "shop", "c");
    source.release("a");
    source.until("both to be gone", |source| source.maps == [("b".to_owned(), "x=3".to_owned())]);
}

#[test]
fn other_fields_are_fetched_without_a_moment_in_which_the_object_is_gone() {
    let fake = Fake::start();
    fake.put("configmaps", map("a", json!({"x": "1", "y": "2", "z": "3"})));
    let mut source = Source::start(&fake);
    source.want(&[("a", DataFields::named(&["x"]))]);
    source.until_map("a", "x=1");
    for (fields, data) in [
        (DataFields::named(&["x", "y"]), "x=1 y=2"),
        (DataFields::All, "x=1 y=2 z=3"),
        (DataFields::named(&["z"]), "z=3"),
    ] {
        source.want(&[("a", fields)]);
        source.until_map("a", data);
    }
    fake.put("configmaps", map("a", json!({"x": "7", "z": "8"})));
    source.until_map("a", "z=8");
}

#[test]
fn a_missing_right_to_config_maps_is_a_problem_and_no_outage() {
    let fake = Fake::start();
    fake.refuse("configmaps", Some(403));
    fake.put("configmaps", map("a", json!({"x": "1"})));
    let mut source = Source::start(&fake);
    source.want(&[("a", DataFields::All)]);
    source.until("the first state", |source| source.progress == Progress::Complete);
    source.until("the problem", |source| source.problems.contains("configmaps"));
    assert!(source.problems.contains("as if it were missing"), "{}", source.problems);
    fake.refuse("configmaps", None);
    source.until_map("a", "x=1");
    source.until("the end of the problem", |source| source.problems.is_empty());
}

/// An Ingress with password authentication from a Secret.
fn guarded(secret: &str, kind: &str) -> Value {
    let mut object = ingress("web", "web.example", Some("nginx"), None);
    object["metadata"]["annotations"] = json!({
        "nginx.ingress.kubernetes.io/auth-type": "basic",
        "nginx.ingress.kubernetes.io/auth-secret": secret,
        "nginx.ingress.kubernetes.io/auth-secret-type": kind,
    });
    object
}

fn users(data: &[(&str, &str)]) -> Value {
    let data: serde_json::Map<String, Value> = data
        .iter()
        .map(|(key, text)| ((*key).to_owned(), json!(k8s_openapi::ByteString(text.as_bytes().to_vec()))))
        .collect();
    json!({"metadata": {"name": "users", "namespace": "shop"}, "data": data})
}

#[test]
fn a_secret_with_users_applies_live_and_may_serve_two_purposes() {
    let fake = Fake::start();
    fake.put("ingressclasses", class("nginx"));
    fake.put("services", service());
    fake.put("endpointslices", slice("10.0.0.1"));
    fake.put("ingresses", guarded("users", "auth-file"));
    let plane = Plane::start(&fake, Options::default());
    let seen = plane.until("the first state", |seen| seen.is_ready());
    assert!(seen.problems.contains("Secret shop/users does not exist"), "{}", seen.problems);
    fake.put("secrets", users(&[("auth", "ann:{PLAIN}x"), ("eve", "{PLAIN}y")]));
    let names =
        |seen: &crate::plane::Seen| format!("{:?}", seen.state.resources.values().collect::<Vec<_>>());
    plane.until("the user", |seen| seen.problems.is_empty() && names(seen).contains("ann"));
    // Every key is a user now; the watch has kept one of them.
    fake.put("ingresses", guarded("users", "auth-map"));
    plane.until("all keys", |seen| names(seen).contains("eve"));
    fake.delete("secrets", "shop", "users");
    plane.until("the Secret to go", |seen| {
        seen.problems.contains("does not exist") && seen.state.resources.is_empty()
    });
}

#[test]
fn tcp_services_are_read_also_where_the_watched_namespace_is_another() {
    let entries = |to: &str| json!({"metadata": {"name": "tcp", "namespace": "edge"}, "data": {"5432": to, "5433": "edge/own:80"}});
    let fake = Fake::start();
    fake.put("services", service());
    fake.put("endpointslices", slice("10.0.0.1"));
    fake.put("configmaps", entries("shop/web:80"));
    let options = Options {
        watch_namespace: Some("shop".into()),
        tcp_services_configmap: Some(NamespacedName::new("edge", "tcp")),
        ..Options::default()
    };
    let plane = Plane::start(&fake, options);
    let seen = plane.until("the first state", |seen| seen.is_ready());
    let id = GroupId::stream(StreamKey { transport: TransportProtocol::Tcp, port: 5432 });
    assert!(seen.first.unwrap().groups.contains_key(&id), "it is whole from the beginning");
    assert!(seen.problems.contains("name a Service of the watched namespace"), "{}", seen.problems);
    plane.until("the endpoint", |seen| seen.has("10.0.0.1"));
    fake.put("configmaps", entries("shop/web:81"));
    plane.until("the edit", |seen| !seen.state.groups.contains_key(&id));
    fake.delete("configmaps", "edge", "tcp");
    plane.until("the deletion", |seen| seen.problems.contains("edge/tcp: this ConfigMap does not exist"));
}
