//! The objects that the ingress-nginx chart makes of values, as far as they decide what is served.

use serde_json::{Map, Value, json};

use super::{ChartValues, scalar};

/// Returns the ConfigMaps of the controller and its IngressClasses, as a list of manifests.
pub(in super::super) fn objects(values: &ChartValues) -> Value {
    let namespace = values.own_namespace();
    let mut items = Vec::new();
    let mut settings = texts(Some(&Value::Object(values.accepted("controller.config"))));
    if values.is_on("controller.allowSnippetAnnotations") {
        settings.insert("allow-snippet-annotations".to_owned(), "true".into());
    }
    for (path, key, suffix) in [
        ("controller.proxySetHeaders", "proxy-set-headers", "custom-proxy-headers"),
        ("controller.addHeaders", "add-headers", "custom-add-headers"),
    ] {
        let fields = texts(values.get(path));
        if !fields.is_empty() {
            let name = format!("{}-{suffix}", values.full_name());
            settings.insert(key.to_owned(), format!("{namespace}/{name}").into());
            items.push(config_map(&namespace, &name, fields));
        }
    }
    // Values such as `configMapNamespace` only change the flags.
    items.push(config_map(&namespace, &values.controller_name(), settings));
    for protocol in ["tcp", "udp"] {
        let ports = texts(values.get(protocol));
        if !ports.is_empty() {
            items.push(config_map(&namespace, &format!("{}-{protocol}", values.full_name()), ports));
        }
    }
    items.extend(classes(values));
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

fn classes(values: &ChartValues) -> Vec<Value> {
    if values.get("controller.ingressClassResource.enabled") == Some(&Value::Bool(false)) {
        return Vec::new();
    }
    let name = values.text("controller.ingressClassResource.name").unwrap_or_else(|| "nginx".to_owned());
    let controller = values.text("controller.ingressClassResource.controllerValue");
    let controller = controller.unwrap_or_else(|| "k8s.io/ingress-nginx".to_owned());
    let is_default = values.is_on("controller.ingressClassResource.default");
    let aliases = values.get("controller.ingressClassResource.aliases").and_then(Value::as_array);
    let class = |name: String, is_default: bool| {
        let annotations = match is_default {
            true => json!({ "ingressclass.kubernetes.io/is-default-class": "true" }),
            false => json!({}),
        };
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
            "metadata": { "name": name, "annotations": annotations },
            "spec": { "controller": controller },
        })
    };
    let aliases = aliases.into_iter().flatten().map(|alias| class(scalar(alias), false));
    std::iter::once(class(name, is_default)).chain(aliases).collect()
}

fn config_map(namespace: &str, name: &str, data: Map<String, Value>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "namespace": namespace, "name": name }, "data": data,
    })
}

fn texts(map: Option<&Value>) -> Map<String, Value> {
    let map = map.and_then(Value::as_object).into_iter().flatten();
    map.filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.clone(), scalar(value).into()))
        .collect()
}
