//! Kubernetes objects as text. They are written as JSON, which is YAML as well.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::backend::Backend;

/// Prefix of the annotations.
const ANNOTATIONS: &str = "nginx.ingress.kubernetes.io";

/// An object as one document of a YAML file.
pub fn document(object: &Value) -> String {
    format!("---\n{object}\n")
}

/// An IngressClass.
pub fn class(name: &str, controller: &str) -> String {
    document(&json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": {"name": name}, "spec": {"controller": controller},
    }))
}

/// The IngressClass `nginx` of ingress-nginx's controller.
pub fn nginx_class() -> String {
    class("nginx", "k8s.io/ingress-nginx")
}

/// An IngressClass that is marked as the default.
pub fn default_class(name: &str, controller: &str) -> String {
    document(&json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": {
            "name": name, "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"},
        },
        "spec": {"controller": controller},
    }))
}

/// A Service in `default` with the port 80, named `http`.
pub fn service(name: &str) -> String {
    document(&json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    }))
}

/// One EndpointSlice for each backend of a Service: their ports differ.
pub fn endpoints(service: &str, backends: &[&Backend]) -> String {
    let slices = backends.iter().enumerate().map(|(index, backend)| {
        let address = backend.address;
        slice(&format!("{service}-{index}"), service, &[&address.ip().to_string()], address.port())
    });
    slices.collect()
}

/// An EndpointSlice of ready addresses with one port.
pub fn slice(name: &str, service: &str, addresses: &[&str], port: u16) -> String {
    let endpoints: Vec<Value> = addresses
        .iter()
        .map(|address| json!({"addresses": [address], "conditions": {"ready": true}}))
        .collect();
    slice_of(name, service, &endpoints, port)
}

/// An EndpointSlice of endpoints as given.
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

/// A Service with its endpoints.
pub fn service_with(name: &str, backends: &[&Backend]) -> String {
    service(name) + &endpoints(name, backends)
}

/// A host whose every path goes to these backends: Ingress, Service and EndpointSlices, all of one name.
pub fn site(name: &str, host: &str, backends: &[&Backend]) -> String {
    Ingress::new(name).path(host, "/", name).text() + &service_with(name, backends)
}

/// A ConfigMap; the name is `namespace/name`.
///
/// # Panics
/// It is not.
pub fn config_map(name: &str, data: &[(&str, &str)]) -> String {
    let (namespace, name) = name.split_once('/').unwrap();
    let data: Map<String, Value> =
        data.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    document(&json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace}, "data": data,
    }))
}

/// A Secret of type `kubernetes.io/tls` in `default`.
pub fn tls_secret(name: &str, certificate: &str, key: &str) -> String {
    tls_secret_in("default", name, certificate, key)
}

/// The same in another namespace.
pub fn tls_secret_in(namespace: &str, name: &str, certificate: &str, key: &str) -> String {
    secret(namespace, name, "kubernetes.io/tls", &[("tls.crt", certificate), ("tls.key", key)])
}

/// A Secret of type `Opaque` in `default`.
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

/// An Ingress in `default` of class `nginx`, put together step by step.
#[derive(Clone)]
pub struct Ingress {
    object: Value,
}

impl Ingress {
    /// Without rules.
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

    /// Another `spec.ingressClassName`, or none.
    pub fn class(mut self, class: Option<&str>) -> Self {
        self.object["spec"]["ingressClassName"] = json!(class);
        self
    }

    /// When it was created: the older of two wins.
    pub fn created(mut self, timestamp: &str) -> Self {
        self.object["metadata"]["creationTimestamp"] = json!(timestamp);
        self
    }

    /// Without a time of creation: the API sets it and refuses a change of it.
    pub fn undated(mut self) -> Self {
        if let Some(metadata) = self.object["metadata"].as_object_mut() {
            metadata.remove("creationTimestamp");
        }
        self
    }

    /// An annotation with ingress-nginx's prefix.
    pub fn annotation(self, name: &str, value: &str) -> Self {
        self.raw_annotation(&format!("{ANNOTATIONS}/{name}"), value)
    }

    /// An annotation with its whole name.
    pub fn raw_annotation(mut self, name: &str, value: &str) -> Self {
        self.object["metadata"]["annotations"][name] = json!(value);
        self
    }

    /// A path with `pathType: Prefix` to port 80 of a Service; an empty host is none.
    pub fn path(self, host: &str, path: &str, service: &str) -> Self {
        self.typed_path(host, path, "Prefix", service)
    }

    /// A path to port 80 of a Service.
    pub fn typed_path(self, host: &str, path: &str, path_type: &str, service: &str) -> Self {
        self.backend_path(
            host,
            path,
            path_type,
            &json!({"service": {"name": service, "port": {"number": 80}}}),
        )
    }

    /// A path to any backend.
    pub fn backend_path(mut self, host: &str, path: &str, path_type: &str, backend: &Value) -> Self {
        let mut rule =
            json!({"http": {"paths": [{"path": path, "pathType": path_type, "backend": backend}]}});
        if !host.is_empty() {
            rule["host"] = json!(host);
        }
        self.object["spec"]["rules"].as_array_mut().unwrap().push(rule);
        self
    }

    /// A TLS entry.
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

    /// `spec.defaultBackend`: port 80 of a Service.
    pub fn default_backend(mut self, service: &str) -> Self {
        self.object["spec"]["defaultBackend"] = json!({"service": {"name": service, "port": {"number": 80}}});
        self
    }

    /// As a document.
    pub fn text(&self) -> String {
        document(&self.object)
    }
}

impl fmt::Display for Ingress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}
