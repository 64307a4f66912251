//! Kubernetes objects as text. They are written as JSON, which is valid YAML.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::backend::Backend;

/// Prefix of the annotations.
const ANNOTATIONS: &str = "nginx.ingress.kubernetes.io";

/// Formats an object as a document of a YAML file.
pub fn document(object: &Value) -> String {
    format!("---\n{object}\n")
}

/// Returns an IngressClass.
pub fn class(name: &str, controller: &str) -> String {
    document(&json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": {"name": name}, "spec": {"controller": controller},
    }))
}

/// Returns the IngressClass `nginx` of ingress-nginx's controller.
pub fn nginx_class() -> String {
    class("nginx", "k8s.io/ingress-nginx")
}

/// Returns an IngressClass that is marked as the default.
pub fn default_class(name: &str, controller: &str) -> String {
    document(&json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": {
            "name": name, "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"},
        },
        "spec": {"controller": controller},
    }))
}

/// Returns a Service in `default` with port 80, named `http`.
pub fn service(name: &str) -> String {
    document(&json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    }))
}

/// Returns an EndpointSlice for each backend of a Service. Several are needed because the ports
/// differ.
pub fn endpoints(service: &str, backends: &[&Backend]) -> String {
    let slices = backends.iter().enumerate().map(|(index, backend)| {
        let address = backend.address;
        slice(&format!("{service}-{index}"), service, &[&address.ip().to_string()], address.port())
    });
    slices.collect()
}

/// Returns an EndpointSlice of ready addresses with one port.
pub fn slice(name: &str, service: &str, addresses: &[&str], port: u16) -> String {
    let endpoints: Vec<Value> = addresses
        .iter()
        .map(|address| json!({"addresses": [address], "conditions": {"ready": true}}))
        .collect();
    slice_of(name, service, &endpoints, port)
}

/// Returns an EndpointSlice of these endpoints.
pub fn slice_of(name: &str, service: &str, endpoints: &[Value], port: u16) -> String {
    document(&json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": name, "namespace": "default", "labels": {"kubernetes.io/service-name": service},
        },
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
        "endpoints": endpoints,
    }))
}

/// Returns a Service with its endpoints.
pub fn service_with(name: &str, backends: &[&Backend]) -> String {
    service(name) + &endpoints(name, backends)
}

/// Returns a host with all paths routed to these backends: Ingress, Service and EndpointSlices with
/// the same name.
pub fn site(name: &str, host: &str, backends: &[&Backend]) -> String {
    Ingress::new(name).path(host, "/", name).text() + &service_with(name, backends)
}

/// Returns a ConfigMap; the name has the form `namespace/name`.
///
/// # Panics
/// The name has another form.
pub fn config_map(name: &str, data: &[(&str, &str)]) -> String {
    let (namespace, name) = name.split_once('/').unwrap();
    let data: Map<String, Value> =
        data.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    document(&json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace}, "data": data,
    }))
}

/// Returns a Secret of type `kubernetes.io/tls` in `default`.
pub fn tls_secret(name: &str, certificate: &str, key: &str) -> String {
    tls_secret_in("default", name, certificate, key)
}

/// Same as [`tls_secret`] for another namespace.
pub fn tls_secret_in(namespace: &str, name: &str, certificate: &str, key: &str) -> String {
    secret(namespace, name, "kubernetes.io/tls", &[("tls.crt", certificate), ("tls.key", key)])
}

/// Returns a Secret of type `Opaque` in `default`.
pub fn opaque_secret(name: &str, data: &[(&str, &str)]) -> String {
    secret("default", name, "Opaque", data)
}

fn secret(namespace: &str, name: &str, kind: &str, data: &[(&str, &str)]) -> String {
    let data: Map<String, Value> =
        data.iter().map(|(key, value)| ((*key).to_owned(), json!(STANDARD.encode(value)))).collect();
    document(&json!({
        "apiVersion": "v1", "kind": "Secret", "type": kind,
        "metadata": {"name": name, "namespace": namespace}, "data": data,
    }))
}

/// Builder of an Ingress in `default` with class `nginx`.
#[derive(Clone)]
pub struct Ingress {
    object: Value,
}

impl Ingress {
    /// Creates an Ingress with all paths of a host, to the Service of its own name. They are served
    /// over TLS with the Secret `tls`, and over plain HTTP without a redirect.
    pub fn plain_and_tls(name: &str, host: &str) -> Self {
        Self::new(name).path(host, "/", name).tls(&[host], "tls").annotation("ssl-redirect", "false")
    }

    /// Creates an Ingress without rules.
    pub fn new(name: &str) -> Self {
        Self {
            object: json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
                "metadata": {
                    "name": name, "namespace": "default", "annotations": {},
                    "creationTimestamp": "2024-01-01T00:00:00Z",
                },
                "spec": {"ingressClassName": "nginx", "rules": []},
            }),
        }
    }

    /// Sets or removes `spec.ingressClassName`.
    pub fn class(mut self, class: Option<&str>) -> Self {
        self.object["spec"]["ingressClassName"] = json!(class);
        self
    }

    /// Sets the time of creation: in conflicts, the older Ingress wins.
    pub fn created(mut self, timestamp: &str) -> Self {
        self.object["metadata"]["creationTimestamp"] = json!(timestamp);
        self
    }

    /// Removes the time of creation: the API sets it and rejects changes of it.
    pub fn undated(mut self) -> Self {
        if let Some(metadata) = self.object["metadata"].as_object_mut() {
            metadata.remove("creationTimestamp");
        }
        self
    }

    /// Adds an annotation with ingress-nginx's prefix.
    pub fn annotation(self, name: &str, value: &str) -> Self {
        self.raw_annotation(&format!("{ANNOTATIONS}/{name}"), value)
    }

    /// Adds annotations with ingress-nginx's prefix.
    pub fn annotations(self, annotations: &[(&str, &str)]) -> Self {
        annotations.iter().fold(self, |ingress, (name, value)| ingress.annotation(name, value))
    }

    /// Adds an annotation with its full name.
    pub fn raw_annotation(mut self, name: &str, value: &str) -> Self {
        self.object["metadata"]["annotations"][name] = json!(value);
        self
    }

    /// Adds a path with `pathType: Prefix` to port 80 of a Service; an empty host is omitted.
    pub fn path(self, host: &str, path: &str, service: &str) -> Self {
        self.typed_path(host, path, "Prefix", service)
    }

    /// Adds a path to port 80 of a Service.
    pub fn typed_path(self, host: &str, path: &str, path_type: &str, service: &str) -> Self {
        self.backend_path(
            host,
            path,
            path_type,
            &json!({"service": {"name": service, "port": {"number": 80}}}),
        )
    }

    /// Adds a path to any backend.
    pub fn backend_path(mut self, host: &str, path: &str, path_type: &str, backend: &Value) -> Self {
        let mut rule =
            json!({"http": {"paths": [{"path": path, "pathType": path_type, "backend": backend}]}});
        if !host.is_empty() {
            rule["host"] = json!(host);
        }
        self.object["spec"]["rules"].as_array_mut().unwrap().push(rule);
        self
    }

    /// Adds a TLS entry.
    pub fn tls(mut self, hosts: &[&str], secret: &str) -> Self {
        let mut entry = json!({"hosts": hosts});
        if !secret.is_empty() {
            entry["secretName"] = json!(secret);
        }
        match self.object["spec"]["tls"].as_array_mut() {
            Some(entries) => entries.push(entry),
            None => self.object["spec"]["tls"] = json!([entry]),
        }
        self
    }

    /// Sets `spec.defaultBackend` to port 80 of a Service.
    pub fn default_backend(mut self, service: &str) -> Self {
        self.object["spec"]["defaultBackend"] = json!({"service": {"name": service, "port": {"number": 80}}});
        self
    }

    /// Formats the Ingress as a YAML document.
    pub fn text(&self) -> String {
        document(&self.object)
    }
}

impl fmt::Display for Ingress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}
