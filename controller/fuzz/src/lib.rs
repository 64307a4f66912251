//! Fuzz targets of the translation: text of an object's author goes into one field of an object,
//! and a control plane translates it.
//!
//! Invariants of all targets: no input panics, the deltas amount to the snapshot, and an Ingress of
//! another owner is served as before.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sluice_config::{Host, HostPattern, NamespacedName, Snapshot};
use sluice_controller::source::files::FileSource;
use sluice_controller::store::{Event, Kind, Prune};
use sluice_controller::translate::{global_settings, ingress::annotations};
use sluice_controller::{Controller, Options};

/// A control plane and what a data plane would hold.
struct World {
    controller: Controller,
    mirror: Snapshot,
    prune: Prune,
}

impl World {
    /// One with a class, a Service, and an Ingress of another owner.
    fn new(options: Options) -> Self {
        let prune = Prune::new(&options);
        let mut controller = Controller::new(options);
        let mut mirror = Snapshot::default();
        mirror.apply(&controller.startup_delta());
        let mut world = Self { controller, mirror, prune };
        world.put([
            json!({"kind": "IngressClass", "metadata": {"name": "nginx"},
                "spec": {"controller": "k8s.io/ingress-nginx"}}),
            json!({"kind": "Service", "metadata": {"name": "web", "namespace": "default"},
                "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]}}),
            ingress("other", "other.example", json!({})),
        ]);
        world
    }

    fn put(&mut self, objects: impl IntoIterator<Item = Value>) {
        let read = |object: Value| {
            let kind = Kind::named(object["kind"].as_str()?)?;
            self.prune.read(kind, object).ok().flatten().map(Event::Put)
        };
        let events: Vec<Event> = objects.into_iter().filter_map(read).collect();
        let update = self.controller.update(events, true);
        if let Some(delta) = &update.delta {
            self.mirror.apply(delta);
        }
        assert!(self.mirror == self.controller.snapshot(), "the deltas do not amount to the snapshot");
    }

    fn other(&self) -> Option<&Host> {
        let is_other = |host: &&std::sync::Arc<Host>| {
            matches!(&host.key.pattern, HostPattern::Exact(name) if name.as_str() == "other.example")
        };
        self.mirror.hosts.values().find(is_other).map(|host| &**host)
    }

    /// Translates objects, which change nothing for the other Ingress.
    fn put_beside(&mut self, objects: impl IntoIterator<Item = Value>) {
        let before = self.other().cloned();
        assert!(before.is_some());
        self.put(objects);
        assert!(self.other() == before.as_ref(), "an Ingress of another owner has changed");
    }
}

fn ingress(name: &str, host: &str, annotations: Value) -> Value {
    json!({"kind": "Ingress",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"ingressClassName": "nginx", "rules": [{"host": host, "http": {"paths": [
            {"path": "/a(/|$)(.*)", "pathType": "ImplementationSpecific",
                "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}})
}

/// Splits off the byte that selects one of several things.
fn select(input: &[u8]) -> Option<(usize, &str)> {
    let (first, rest) = input.split_first()?;
    Some((usize::from(*first), str::from_utf8(rest).ok()?))
}

/// Snippets and all risks are permitted, so every value is read.
fn permissive() -> Value {
    json!({"kind": "ConfigMap", "metadata": {"name": "sluice", "namespace": "default"},
        "data": {"allow-snippet-annotations": "true", "annotations-risk-level": "Critical",
            "allow-cross-namespace-resources": "true"}})
}

fn options() -> Options {
    Options { configmap: Some(NamespacedName::new("default", "sluice")), ..Options::default() }
}

fn name_of(entry: &str) -> String {
    if entry.contains('/') { entry.to_owned() } else { format!("nginx.ingress.kubernetes.io/{entry}") }
}

/// A value of an annotation.
pub fn annotation(input: &[u8]) {
    let Some((selected, value)) = select(input) else { return };
    let names: Vec<&str> = annotations::TABLE.entries().map(|entry| entry.name).collect();
    let name = name_of(names[selected % names.len()]);
    let mut world = World::new(options());
    world.put([permissive()]);
    let host = "fuzz.example";
    // Names of other hosts are the author's right where no object has them yet.
    world.put_beside([ingress("fuzz", host, json!({ name: value, "nginx.ingress.kubernetes.io/use-regex": "true" }))]);
}

/// A value of the program's ConfigMap. It applies to all Ingresses.
pub fn config_map(input: &[u8]) {
    let Some((selected, value)) = select(input) else { return };
    let names: Vec<&str> = global_settings::TABLE.entries().map(|entry| entry.name).collect();
    let mut world = World::new(options());
    world.put([json!({"kind": "ConfigMap", "metadata": {"name": "sluice", "namespace": "default"},
        "data": {names[selected % names.len()]: value}})]);
}

/// Entries of a ConfigMap of TCP services, one in each line, with a tab behind the port.
pub fn stream_services(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let data: serde_json::Map<String, Value> = text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(port, target)| (port.to_owned(), target.into()))
        .collect();
    let name = NamespacedName::new("default", "streams");
    let options = Options {
        tcp_services_configmap: Some(name.clone()),
        udp_services_configmap: Some(name),
        ..Options::default()
    };
    let map = json!({"kind": "ConfigMap", "metadata": {"name": "streams", "namespace": "default"}, "data": data});
    World::new(options).put_beside([map]);
}

/// A file of manifests.
pub fn manifests(input: &[u8]) {
    let Ok(folder) = folder() else { return };
    for name in ["objects.yaml", "objects.json"] {
        if std::fs::write(folder.path().join(name), input).is_err() {
            return;
        }
    }
    let options = options();
    let Ok(batch) = FileSource::read_once(folder.path(), &options) else { return };
    let mut controller = Controller::new(options);
    let mut mirror = Snapshot::default();
    mirror.apply(&controller.startup_delta());
    if let Some(delta) = &controller.update(batch.events, true).delta {
        mirror.apply(delta);
    }
    assert!(mirror == controller.snapshot(), "the deltas do not amount to the snapshot");
}

/// In memory, where the machine has such a file system.
fn folder() -> std::io::Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
}

/// The content of a Secret, with an Ingress that names it.
pub fn secret(input: &[u8]) {
    let Some((selected, content)) = input.split_first() else { return };
    let prefix = |name: &str| format!("nginx.ingress.kubernetes.io/{name}");
    let (keys, annotations): (&[&str], Value) = match selected % 6 {
        0 => (&["auth"], json!({prefix("auth-type"): "basic", prefix("auth-secret"): "fuzz"})),
        1 => (&["auth"], json!({prefix("auth-type"): "digest", prefix("auth-secret"): "fuzz"})),
        2 => (&["user"], json!({prefix("auth-type"): "basic", prefix("auth-secret"): "fuzz",
            prefix("auth-secret-type"): "auth-map"})),
        3 => (&["ca.crt", "ca.crl"], json!({prefix("auth-tls-secret"): "default/fuzz"})),
        4 => (&["ca.crt", "tls.crt", "tls.key"], json!({prefix("proxy-ssl-secret"): "default/fuzz"})),
        _ => (&["tls.crt", "tls.key"], json!({})),
    };
    let data: serde_json::Map<String, Value> =
        keys.iter().map(|key| ((*key).to_owned(), STANDARD.encode(content).into())).collect();
    let mut object = ingress("fuzz", "fuzz.example", annotations);
    object["spec"]["tls"] = json!([{"hosts": ["fuzz.example"], "secretName": "fuzz"}]);
    let secret = json!({"kind": "Secret", "metadata": {"name": "fuzz", "namespace": "default"}, "data": data});
    World::new(Options::default()).put_beside([object, secret]);
}

/// Directives of a snippet.
pub fn snippet(input: &[u8]) {
    let Some((selected, text)) = select(input) else { return };
    const NAMES: [&str; 4] =
        ["configuration-snippet", "server-snippet", "auth-snippet", "stream-snippet"];
    let name = format!("nginx.ingress.kubernetes.io/{}", NAMES[selected % NAMES.len()]);
    let auth = "nginx.ingress.kubernetes.io/auth-url";
    let mut world = World::new(options());
    world.put([permissive()]);
    world.put_beside([ingress("fuzz", "fuzz.example", json!({name: text, auth: "http://auth.example/"}))]);
}
