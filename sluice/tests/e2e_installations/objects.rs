//! Compact constructors for the objects of a cluster.

use serde_json::{Map, Value, json};

use crate::harness::TestCertificate;
use crate::harness::manifest::document;

/// An Ingress.
pub(super) struct Ingress<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) host: &'a str,
    /// Path, path type and Service of each path.
    pub(super) paths: &'a [(&'a str, &'a str, &'a str)],
    /// Annotations; a name without a prefix is one of ingress-nginx.
    pub(super) annotations: &'a [(&'a str, &'a str)],
}

impl Ingress<'_> {
    /// Formats the Ingress like `kubectl get -o yaml`, with the certificate of its namespace.
    pub(super) fn text(&self) -> String {
        let Self { namespace, name, host, paths, annotations } = self;
        let annotations: Map<String, Value> = annotations
            .iter()
            .map(|(name, value)| {
                let name = match name.contains('/') {
                    true => (*name).to_owned(),
                    false => format!("nginx.ingress.kubernetes.io/{name}"),
                };
                (name, json!(value))
            })
            .collect();
        let paths: Vec<Value> = paths
            .iter()
            .map(|(path, kind, service)| {
                json!({
                    "path": path, "pathType": kind,
                    "backend": {"service": {"name": service, "port": {"number": 80}}},
                })
            })
            .collect();
        document(&json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
            "spec": {
                "ingressClassName": "nginx",
                "tls": [{"hosts": [host], "secretName": "wildcard-tls"}],
                "rules": [{"host": host, "http": {"paths": paths}}],
            },
        }))
    }
}

/// Returns a Service with two endpoints.
pub(super) fn service(namespace: &str, name: &str) -> String {
    document(&json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    })) + &document(&json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": format!("{name}-1"), "namespace": namespace,
            "labels": {"kubernetes.io/service-name": name},
        },
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [
            {"addresses": ["10.0.0.1"], "conditions": {"ready": true}},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": true}},
        ],
    }))
}

/// Returns the certificate of all hosts of a namespace.
pub(super) fn certificate(namespace: &str, domain: &str) -> String {
    TestCertificate::new(&[&format!("*.{domain}"), domain]).secret_in(namespace, "wildcard-tls")
}

/// Returns a Secret with one key.
pub(super) fn secret(namespace: &str, name: &str, key: &str, value: &str) -> String {
    document(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace},
        "stringData": {key: value},
    }))
}

/// Returns the ConfigMap of the controller.
pub(super) fn settings(keys: &[(&str, &str)]) -> String {
    let data: Map<String, Value> =
        keys.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    document(&json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "ingress-nginx-controller", "namespace": "ingress-nginx"}, "data": data,
    }))
}
