//! Objects in few words, all of them in namespace `shop`.

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use sluice_testing::certificate::TestCertificate;

pub(crate) fn class(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"controller": "k8s.io/ingress-nginx"}})
}

fn meta(name: &str) -> Value {
    json!({"name": name, "namespace": "shop"})
}

/// An Ingress from a host to Service `web`, with a class by the field and a Secret.
pub(crate) fn ingress(name: &str, host: &str, class: Option<&str>, secret: Option<&str>) -> Value {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let paths = json!([{"path": "/", "pathType": "Prefix", "backend": backend}]);
    let tls: Vec<Value> =
        secret.iter().map(|secret| json!({"hosts": [host], "secretName": secret})).collect();
    json!({"metadata": meta(name), "spec": {
        "ingressClassName": class, "tls": tls, "rules": [{"host": host, "http": {"paths": paths}}]}})
}

/// The same with a class by annotation.
pub(crate) fn annotated(name: &str, host: &str, class: &str) -> Value {
    let mut object = ingress(name, host, None, None);
    object["metadata"]["annotations"] = json!({"kubernetes.io/ingress.class": class});
    object
}

pub(crate) fn service() -> Value {
    json!({"metadata": meta("web"), "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]}})
}

pub(crate) fn slice(address: &str) -> Value {
    json!({"addressType": "IPv4", "ports": [{"name": "http", "port": 8080}], "endpoints": [{"addresses": [address]}],
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}}})
}

/// A Secret with a certificate for `host`, which identifies it, `web.example` and `mark.example`.
pub(crate) fn secret(name: &str, host: &str) -> Value {
    let certificate = TestCertificate::new(&[host, "web.example", "mark.example"]);
    let bytes = |text: String| ByteString(text.into_bytes());
    json!({"type": "kubernetes.io/tls", "metadata": meta(name),
        "data": {"tls.crt": bytes(certificate.pem), "tls.key": bytes(certificate.key_pem)}})
}

pub(crate) fn config_map(redirect_code: u16) -> Value {
    json!({"metadata": meta("settings"), "data": {"http-redirect-code": redirect_code.to_string()}})
}

pub(crate) fn namespace(edge: &str) -> Value {
    json!({"metadata": {"name": "shop", "labels": {"edge": edge}}})
}
