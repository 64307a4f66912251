//! Short constructors of objects, and a control plane whose deltas are replayed at every step.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sluice_config::{
    Action, Backend, Host, HostName, HostPattern, NamespacedName, PathMatch, Problem, Report, Rule, Snapshot,
};
use sluice_controller::store::{Event, Kind, ObjectKey, Prune};
use sluice_controller::{Controller, Options, ProblemChanges, Update};
use sluice_testing::certificate::TestCertificate;

/// A control plane and the state of its data plane.
pub(crate) struct World {
    pub(crate) controller: Controller,
    pub(crate) mirror: Snapshot,
    /// The reported problems, change by change.
    reported: BTreeSet<Problem>,
    prune: Prune,
}

impl World {
    pub(crate) fn new(options: Options) -> Self {
        let prune = Prune::new(&options);
        let mut controller = Controller::new(options);
        let mut mirror = Snapshot::default();
        mirror.apply(&controller.startup_delta());
        Self { controller, mirror, reported: BTreeSet::new(), prune }
    }

    /// Returns a world with an IngressClass `nginx`, and a Service `web` with two endpoints on its
    /// only port.
    pub(crate) fn ready(options: Options) -> Self {
        let mut world = Self::new(options);
        world.put([
            class("nginx", "k8s.io/ingress-nginx"),
            service("web", json!([{"name": "http", "port": 80, "targetPort": 8080}])),
            slice("web-1", "web", json!([{"name": "http", "port": 8080}]), json!(["10.0.0.1", "10.0.0.2"])),
        ]);
        world
    }

    pub(crate) fn put(&mut self, objects: impl IntoIterator<Item = Value>) -> Update {
        let events = objects.into_iter().filter_map(|object| self.event(object)).collect();
        self.update(events)
    }

    pub(crate) fn delete(&mut self, kind: Kind, name: &str) -> Update {
        self.update(vec![Event::Delete(key(kind, name))])
    }

    pub(crate) fn event(&self, object: Value) -> Option<Event> {
        event(&self.prune, object)
    }

    pub(crate) fn update(&mut self, events: Vec<Event>) -> Update {
        let update = self.controller.update(events, true);
        if let Some(delta) = &update.delta {
            self.mirror.apply(delta);
        }
        assert_eq!(self.mirror, self.controller.snapshot(), "the deltas amount to the snapshot");
        self.tell(&update.problems);
        update
    }

    pub(crate) fn report(&mut self, report: &Report) {
        let changes = self.controller.report(report);
        self.tell(&changes);
    }

    fn tell(&mut self, changes: &ProblemChanges) {
        for problem in &changes.resolved {
            assert!(self.reported.remove(&**problem), "never reported: {problem}");
        }
        for problem in &changes.appeared {
            assert!(self.reported.insert((**problem).clone()), "reported twice: {problem}");
        }
        let reported: Vec<Problem> = self.reported.iter().cloned().collect();
        assert_eq!(reported, self.controller.problems(), "the changes amount to all problems");
    }

    pub(crate) fn problems(&self) -> Vec<Problem> {
        self.controller.problems()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.problems().iter().map(ToString::to_string).collect()
    }

    pub(crate) fn host(&self, name: &str) -> Option<&Host> {
        self.mirror.hosts.values().find(|host| host.key.pattern == pattern(name)).map(|host| &**host)
    }

    /// Returns the rules of a host in short form, in order.
    pub(crate) fn rules(&self, name: &str) -> Vec<String> {
        self.host(name).map(|host| host.rules.iter().map(words).collect()).unwrap_or_default()
    }

    /// Returns the addresses of a Service port in namespace `default`.
    pub(crate) fn endpoints(&self, service: &str, port: &str) -> Option<Vec<String>> {
        let set = self.mirror.endpoint_sets.values().find(|set| {
            *set.key.namespace == *"default" && *set.key.service == *service && *set.key.port == *port
        })?;
        Some(set.endpoints.iter().map(|endpoint| endpoint.address.to_string()).collect())
    }
}

pub(crate) fn pattern(name: &str) -> HostPattern {
    match name.strip_prefix("*.") {
        _ if name == "_" => HostPattern::Any,
        Some(rest) => HostPattern::OneLabel(HostName::new(rest)),
        None => HostPattern::Exact(HostName::new(name)),
    }
}

fn words(rule: &Rule) -> String {
    let path = match &rule.matches.path {
        PathMatch::Exact(path) => format!("={path}"),
        PathMatch::Prefix(path) => path.to_string(),
        PathMatch::Regex(path) => format!("~{path}"),
        PathMatch::Extended(regex) => format!("~{}", regex.text),
    };
    let to = match &rule.action {
        Action::Redirect(redirect) => redirect.status.to_string(),
        Action::RedirectToHost(host) => host.to_string(),
        Action::Answer(status) => status.to_string(),
        Action::Forward(backends) => match &backends[0].backend {
            Backend::Pool { pool, .. } => pool.to_string().replace("default/", ""),
            Backend::Default => "default".to_owned(),
            Backend::Invalid { status, .. } => status.to_string(),
        },
    };
    let deny = rule.policies.deny.as_ref().map_or(String::new(), |deny| format!(" denied {}", deny.status));
    format!("{path} -> {to}{deny}")
}

pub(crate) fn key(kind: Kind, name: &str) -> ObjectKey {
    let namespace = if kind.is_namespaced() { "default" } else { "" };
    ObjectKey { kind, name: NamespacedName::new(namespace, name) }
}

pub(crate) fn event(prune: &Prune, object: Value) -> Option<Event> {
    let kind = Kind::named(object["kind"].as_str().unwrap()).unwrap();
    let object = prune.read(kind, object);
    object.unwrap().map(Event::Put)
}

pub(crate) fn class(name: &str, controller: &str) -> Value {
    json!({"kind": "IngressClass", "metadata": {"name": name}, "spec": {"controller": controller}})
}

pub(crate) fn default_class(name: &str, controller: &str) -> Value {
    json!({"kind": "IngressClass", "spec": {"controller": controller}, "metadata": {
        "name": name, "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}})
}

/// An Ingress of class `nginx` in namespace `default`.
pub(crate) fn ingress(name: &str, spec: Value) -> Value {
    annotated(name, json!({}), spec)
}

/// The same with annotations of ingress-nginx.
pub(crate) fn with(name: &str, annotations: &[(&str, &str)], spec: Value) -> Value {
    let prefixed =
        |(name, value): &(&str, &str)| (format!("nginx.ingress.kubernetes.io/{name}"), json!(value));
    annotated(name, Value::Object(annotations.iter().map(prefixed).collect()), spec)
}

pub(crate) fn annotated(name: &str, annotations: Value, mut spec: Value) -> Value {
    let entry = spec.as_object_mut().unwrap().entry("ingressClassName");
    entry.or_insert_with(|| "nginx".into());
    json!({"kind": "Ingress", "spec": spec,
        "metadata": {"name": name, "namespace": "default", "annotations": annotations}})
}

pub(crate) fn created(mut object: Value, second: u32) -> Value {
    object["metadata"]["creationTimestamp"] = format!("2026-01-01T00:00:{second:02}Z").into();
    object
}

/// `spec` with one host whose paths lead to port 80 of Service `web`. A path with a leading `=` is
/// Exact.
pub(crate) fn paths(host: &str, paths: &[&str]) -> Value {
    let paths: Vec<Value> = paths.iter().map(|path| path_to(path, "web", json!({"number": 80}))).collect();
    json!({"rules": [{"host": host, "http": {"paths": paths}}]})
}

pub(crate) fn path_to(path: &str, service: &str, port: Value) -> Value {
    let (path, kind) = path.strip_prefix('=').map_or((path, "Prefix"), |path| (path, "Exact"));
    json!({"path": path, "pathType": kind, "backend": backend(service, port)})
}

pub(crate) fn backend(service: &str, port: Value) -> Value {
    json!({"service": {"name": service, "port": port}})
}

pub(crate) fn service(name: &str, ports: Value) -> Value {
    json!({"kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": {"ports": ports}})
}

/// An EndpointSlice whose endpoints are addresses or complete objects.
pub(crate) fn slice(name: &str, service: &str, ports: Value, endpoints: Value) -> Value {
    let endpoints: Vec<Value> = endpoints
        .as_array()
        .unwrap()
        .iter()
        .map(|one| if one.is_string() { json!({"addresses": [one]}) } else { one.clone() })
        .collect();
    let v6 = endpoints.iter().any(|one| one["addresses"][0].as_str().is_some_and(|text| text.contains(':')));
    json!({"kind": "EndpointSlice", "addressType": if v6 { "IPv6" } else { "IPv4" }, "ports": ports,
        "endpoints": endpoints, "metadata": {"name": name, "namespace": "default",
        "labels": {"kubernetes.io/service-name": service}}})
}

/// The same object in another namespace, which has no Services.
pub(crate) fn of_other(mut object: Value) -> Value {
    object["metadata"]["namespace"] = "other".into();
    object
}

pub(crate) fn config_map(data: Value) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"name": "controller", "namespace": "default"}, "data": data})
}

/// Certificate and key in PEM.
pub(crate) fn pair(names: &[&str]) -> (String, String) {
    let TestCertificate { pem, key_pem, .. } = TestCertificate::new(names);
    (pem, key_pem)
}

pub(crate) fn tls_secret(name: &str, (certificate, key): &(String, String)) -> Value {
    json!({"kind": "Secret", "type": "kubernetes.io/tls", "metadata": {"name": name, "namespace": "default"},
        "stringData": {"tls.crt": certificate, "tls.key": key}})
}
