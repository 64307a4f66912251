//! A container's environment variables, and the values of its Pod's fields.
//!
//! Objects to be fetched are determined first ([`sources`]); building the environment is then pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{Container, EnvVarSource, ObjectFieldSelector, Pod};
use kube::ResourceExt;

use crate::addresses::{API_PORT, GATEWAY};

/// The source kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

/// Names of the ConfigMaps and Secrets that a container needs.
pub type Names = BTreeSet<(Kind, String)>;
/// The contents of those that exist.
pub type Contents = BTreeMap<(Kind, String), BTreeMap<String, Vec<u8>>>;

/// A Pod and its properties outside of the object.
#[derive(Clone, Debug)]
pub struct PodFields<'a> {
    /// The Pod.
    pub pod: &'a Pod,
    /// Its addresses.
    pub addresses: &'a [IpAddr],
    /// Its node's address.
    pub node_address: IpAddr,
}

/// Returns the ConfigMaps and Secrets that a container's environment refers to.
pub fn sources(container: &Container) -> Names {
    let mut names = Names::new();
    for from in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
        names.extend(from.config_map_key_ref.iter().map(|r| (Kind::ConfigMap, r.name.clone())));
        names.extend(from.secret_key_ref.iter().map(|r| (Kind::Secret, r.name.clone())));
    }
    names
}

/// Returns the environment of a container in order. A later value of a name replaces an earlier
/// one.
///
/// # Errors
/// Returns an error if something that is not optional is missing.
pub fn environment(
    fields: &PodFields<'_>,
    container: &Container,
    contents: &Contents,
) -> Result<Vec<(String, String)>> {
    let mut all = Environment::default();
    all.set("PATH", "/image:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into());
    all.set("HOME", "/root".into());
    all.set("HOSTNAME", fields.pod.name_any());
    all.set("KUBERNETES_SERVICE_HOST", GATEWAY.to_string());
    all.set("KUBERNETES_SERVICE_PORT", API_PORT.to_string());
    all.set("KUBERNETES_SERVICE_PORT_HTTPS", API_PORT.to_string());
    for variable in container.env.iter().flatten() {
        if let Some(value) = &variable.value {
            let value = all.expand(value);
            all.set(&variable.name, value);
        } else if let Some(from) = &variable.value_from {
            if let Some(value) = taken_from(fields, from, contents).with_context(|| variable.name.clone())? {
                all.set(&variable.name, value);
            }
        } else {
            all.set(&variable.name, String::new());
        }
    }
    Ok(all.0)
}

/// Replaces `$(NAME)` in a text by values of an environment. `$$` is a dollar sign, and unknown
/// names are left unchanged.
pub fn expand(text: &str, environment: &[(String, String)]) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match environment.iter().find(|(known, _)| known == name) {
                Some((_, value)) => expanded.push_str(value),
                None => expanded.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            expanded.push('$');
        }
    }
    expanded + rest
}

/// Returns the value of a Pod's field as in the downward API.
///
/// # Errors
/// Returns an error if the lab does not support the field.
pub fn field(fields: &PodFields<'_>, selector: &ObjectFieldSelector) -> Result<String> {
    let pod = fields.pod;
    let spec = pod.spec.as_ref();
    let path = selector.field_path.as_str();
    if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        let value = match map {
            "metadata.labels" => pod.labels().get(key),
            "metadata.annotations" => pod.annotations().get(key),
            _ => bail!("the lab does not know the field {path}"),
        };
        return Ok(value.cloned().unwrap_or_default());
    }
    let lines = |map: &BTreeMap<String, String>| {
        map.iter().map(|(key, value)| format!("{key}={value:?}\n")).collect::<String>()
    };
    Ok(match path {
        "metadata.name" => pod.name_any(),
        "metadata.namespace" => pod.namespace().unwrap_or_default(),
        "metadata.uid" => pod.uid().unwrap_or_default(),
        "metadata.labels" => lines(pod.labels()),
        "metadata.annotations" => lines(pod.annotations()),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        "spec.serviceAccountName" => {
            spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default()
        }
        "status.podIP" => fields.addresses.first().map(ToString::to_string).unwrap_or_default(),
        "status.podIPs" => fields.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        "status.hostIP" | "status.hostIPs" => fields.node_address.to_string(),
        _ => bail!("the lab does not know the field {path}"),
    })
}

#[derive(Default)]
struct Environment(Vec<(String, String)>);

impl Environment {
    fn set(&mut self, name: &str, value: String) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    fn expand(&self, text: &str) -> String {
        expand(text, &self.0)
    }
}

/// Returns the value of a reference. `None` for an optional reference to a missing object.
fn taken_from(fields: &PodFields<'_>, from: &EnvVarSource, contents: &Contents) -> Result<Option<String>> {
    if let Some(selector) = &from.field_ref {
        return field(fields, selector).map(Some);
    }
    let (kind, name, key, optional) = match (&from.config_map_key_ref, &from.secret_key_ref) {
        (Some(r), _) => (Kind::ConfigMap, &r.name, &r.key, r.optional),
        (_, Some(r)) => (Kind::Secret, &r.name, &r.key, r.optional),
        _ => bail!("the lab does not know this kind of reference"),
    };
    match contents.get(&(kind, name.clone())).and_then(|content| content.get(key)) {
        Some(value) => Ok(Some(String::from_utf8_lossy(value).into_owned())),
        None if optional == Some(true) => Ok(None),
        None => bail!("key {key:?} of {kind:?} {name:?} is missing"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"app": "echo"}},
            "spec": {"nodeName": "node-1", "serviceAccountName": "default", "containers": []},
        }))
        .unwrap()
    }

    fn build(container: serde_json::Value, contents: &Contents) -> Result<BTreeMap<String, String>> {
        let (pod, container) = (pod(), serde_json::from_value(container).unwrap());
        let addresses = ["10.244.16.1".parse().unwrap()];
        let fields =
            PodFields { pod: &pod, addresses: &addresses, node_address: "10.244.0.11".parse().unwrap() };
        Ok(environment(&fields, &container, contents)?.into_iter().collect())
    }

    #[test]
    fn values_come_from_fields_secrets_and_config_maps() {
        let container = json!({"name": "c",
            "env": [
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "x", "optional": true}}},
                {"name": "WORD", "valueFrom": {"configMapKeyRef": {"name": "all", "key": "A"}}},
                {"name": "URL", "value": "http://$(IP):80/$(NO)/$$(IP)"},
            ],
        });
        let contents = Contents::from([
            ((Kind::ConfigMap, "all".into()), BTreeMap::from([("A".into(), b"1".to_vec())])),
            ((Kind::Secret, "s".into()), BTreeMap::from([("k".into(), b"v".to_vec())])),
        ]);
        let parsed: Container = serde_json::from_value(container.clone()).unwrap();
        assert_eq!(sources(&parsed), contents.keys().cloned().collect());
        let environment = build(container, &contents).unwrap();
        for (name, value) in [
            ("IP", "10.244.16.1"),
            ("APP", "echo"),
            ("KEY", "v"),
            ("WORD", "1"),
            ("URL", "http://10.244.16.1:80/$(NO)/$(IP)"),
        ] {
            assert_eq!(environment[name], value, "{name}");
        }
        assert!(!environment.contains_key("NONE"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let container = json!({"name": "c", "env": [
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ]});
        let error = format!("{:#}", build(container, &Contents::new()).unwrap_err());
        assert!(error.contains("KEY") && error.contains("Secret \"s\""), "{error}");
    }
}
