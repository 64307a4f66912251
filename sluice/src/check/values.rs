//! The chart values of the old installation (`--values`): its flags, its ConfigMaps and its
//! IngressClass, as the ingress-nginx chart makes them, and the values that the chart of Sluice
//! refuses or ignores.
//!
//! Names and meanings are those of the chart 4.15.1 and of its maintained fork up to 4.15.8.

mod commands;
mod objects;

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Map, Value};
use sluice_config::{Code, ObjectRef, Problem, Severity};
use sluice_controller::{YamlError, parse_yaml};

use crate::chart_names::ChartNames;
use crate::flags::parse_bool;

pub(super) use objects::objects;

/// Values that the chart of Sluice refuses and ignores, and the schema of its values.
const REFUSED: &str = include_str!("../../../charts/sluice/files/refused.json");
const IGNORED: &str = include_str!("../../../charts/sluice/files/ignored.json");
const SCHEMA: &str = include_str!("../../../charts/sluice/values.schema.json");
/// Flags without a value, which is `true` then.
const SWITCHES: &str = include_str!("../../../charts/sluice/files/switches.json");

/// What to do about a value that the chart refuses.
const REMOVE: &str = "remove the value before you install Sluice with this file";

/// The values of a release.
#[derive(Debug)]
pub(super) struct ChartValues {
    values: Value,
    /// Name of the file, for messages.
    file: String,
    namespace: String,
    release: String,
}

impl ChartValues {
    /// Reads a file of values.
    ///
    /// # Errors
    /// The file cannot be read, or is not a map of values.
    pub(super) fn read(path: &Path, release: &str) -> Result<Self> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(|| {
            format!("cannot read {file}; --values names a file of chart values, such as the output of: helm get values ingress-nginx -n ingress-nginx")
        })?;
        let values = parse_yaml(&text).map_err(|error| {
            let YamlError { line, reason } = error;
            anyhow!("{file} is not YAML: line {line}: {reason}; correct it")
        })?;
        Self::new(values, &file, release)
    }

    fn new(mut values: Value, file: &str, release: &str) -> Result<Self> {
        if values.is_null() {
            values = Value::Object(Map::new());
        }
        // Values of a chart with ingress-nginx as a dependency.
        if let Some(inner) = values.get_mut("ingress-nginx").map(Value::take) {
            values = inner;
        }
        ensure!(
            values.is_object(),
            "{file} has no map of chart values; give the file that helm got with --values"
        );
        let (namespace, release) = release
            .split_once('/')
            .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty())
            .with_context(|| {
                format!(
                    "--release {release:?} is not a namespace and name; write ingress-nginx/ingress-nginx"
                )
            })?;
        Ok(Self {
            values,
            file: file.to_owned(),
            namespace: namespace.to_owned(),
            release: release.to_owned(),
        })
    }

    /// Returns a value by its path; `None` if it is absent or null.
    fn get(&self, path: &str) -> Option<&Value> {
        let found = path.split('.').try_fold(&self.values, |value, key| value.get(key))?;
        (!found.is_null()).then_some(found)
    }

    fn text(&self, path: &str) -> Option<String> {
        self.get(path).map(scalar).filter(|text| !text.is_empty())
    }

    fn is_on(&self, path: &str) -> bool {
        self.get(path) == Some(&Value::Bool(true))
    }

    /// Returns the chart's `fullname`.
    fn full_name(&self) -> String {
        let name = self.text("nameOverride").unwrap_or_else(|| "ingress-nginx".to_owned());
        self.text("fullnameOverride").unwrap_or_else(|| match self.release.contains(&name) {
            true => self.release.clone(),
            false => format!("{}-{name}", self.release),
        })
    }

    /// Returns the chart's name for the objects of the controller.
    fn controller_name(&self) -> String {
        let part = self.text("controller.name").unwrap_or_else(|| "controller".to_owned());
        format!("{}-{part}", self.full_name())
    }

    fn own_namespace(&self) -> String {
        self.text("namespaceOverride").unwrap_or_else(|| self.namespace.clone())
    }

    /// Returns the flags of the controller's Pods. Flags of `extraArgs` replace others. Flags that
    /// the chart refuses are left out.
    pub(super) fn flags(&self) -> Vec<(String, String)> {
        let namespace = self.own_namespace();
        let named = |path: &str, name: String| {
            format!("{}/{name}", self.text(path).unwrap_or_else(|| namespace.clone()))
        };
        let mut flags: Vec<(String, String)> = Vec::new();
        let mut set =
            |name: &str, value: Option<String>| flags.extend(value.map(|value| (name.to_owned(), value)));
        set("configmap", Some(named("controller.configMapNamespace", self.controller_name())));
        set("controller-class", self.text("controller.ingressClassResource.controllerValue"));
        set("ingress-class", self.text("controller.ingressClass"));
        for (flag, path) in [
            ("watch-ingress-without-class", "controller.watchIngressWithoutClass"),
            ("ingress-class-by-name", "controller.ingressClassByName"),
            ("enable-annotation-validation", "controller.enableAnnotationValidations"),
        ] {
            set(flag, self.get(path).map(scalar));
        }
        for protocol in ["tcp", "udp"] {
            if self.get(protocol).and_then(Value::as_object).is_some_and(|ports| !ports.is_empty()) {
                let name = named(
                    &format!("controller.{protocol}.configMapNamespace"),
                    format!("{}-{protocol}", self.full_name()),
                );
                set(&format!("{protocol}-services-configmap"), Some(name));
            }
        }
        if self.is_on("defaultBackend.enabled") {
            let part = self.text("defaultBackend.name").unwrap_or_else(|| "defaultbackend".to_owned());
            set("default-backend-service", Some(format!("{namespace}/{}-{part}", self.full_name())));
        }
        match self.is_on("controller.scope.enabled") {
            true => set(
                "watch-namespace",
                Some(self.text("controller.scope.namespace").unwrap_or_else(|| namespace.clone())),
            ),
            false => set("watch-namespace-selector", self.text("controller.scope.namespaceSelector")),
        }
        for (name, value) in self.accepted("controller.extraArgs") {
            flags.retain(|(other, _)| *other != name);
            let value = scalar(&value).replace("$(POD_NAMESPACE)", &namespace);
            flags.push((name, value));
        }
        flags
    }

    /// Returns the entries of a map without those that the chart refuses.
    fn accepted(&self, path: &str) -> Map<String, Value> {
        let refused: HashSet<String> = self.problems().into_iter().map(|problem| problem.field).collect();
        let map = self.get(path).and_then(Value::as_object).into_iter().flatten();
        map.filter(|(name, _)| !refused.contains(&format!("{path}.{name}")))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// Returns a problem for each value that the chart of Sluice refuses, ignores or does not have.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let switches: Vec<String> = serde_json::from_str(SWITCHES).unwrap_or_default();
        let is_switch = |path: &str| {
            let flag = path.strip_prefix("controller.extraArgs.");
            flag.is_some_and(|flag| switches.iter().any(|switch| switch == flag))
        };
        let mut problems = Vec::new();
        for (list, severity) in [(REFUSED, Severity::Error), (IGNORED, Severity::Warning)] {
            let entries: Vec<Value> = serde_json::from_str(list).unwrap_or_default();
            for entry in &entries {
                let path = entry["path"].as_str().unwrap_or_default();
                let Some(value) = self.get(path) else { continue };
                let is_default = match &entry["text"] {
                    Value::String(text) if is_switch(path) => *text == switch(value),
                    Value::String(text) => *text == scalar(value),
                    _ => is_empty(value) && is_empty(&entry["default"]) || *value == entry["default"],
                };
                if is_default {
                    continue;
                }
                let (says, remedy) = match severity {
                    Severity::Error => ("refuses", REMOVE),
                    Severity::Warning => ("ignores", "remove the value, or accept that it has no effect"),
                };
                let reason = entry["reason"].as_str().unwrap_or_default();
                let message = format!("the chart of Sluice {says} it: {reason}");
                problems.push(self.problem(path, severity, message, remedy));
            }
        }
        problems.extend(commands::problems(self));
        let schema: Value = serde_json::from_str(SCHEMA).unwrap_or_default();
        self.unknown(&self.values, &schema, &ChartNames::read(), "", &mut problems);
        problems
    }

    /// Adds a problem for each key below `above` that the chart does not have.
    fn unknown(
        &self,
        value: &Value,
        schema: &Value,
        names: &ChartNames,
        above: &str,
        problems: &mut Vec<Problem>,
    ) {
        let Some(map) = value.as_object() else { return };
        for (key, value) in map {
            let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
            let is_known = match schema["properties"].get(key) {
                Some(schema) => {
                    self.unknown(value, schema, names, &path, problems);
                    true
                }
                None => {
                    let is_named = value.is_null() || names.contains(above, key);
                    is_named && schema["additionalProperties"] != false
                }
            };
            if !is_known {
                let message = "the chart of Sluice refuses it: it has no such value".to_owned();
                let remedy = "correct the name, or remove the value before you install Sluice with this file";
                problems.push(self.problem(&path, Severity::Error, message, remedy));
            }
        }
    }

    fn problem(&self, path: &str, severity: Severity, message: String, remedy: &str) -> Problem {
        Problem {
            object: ObjectRef::new("Values", "", &self.file),
            uid: None,
            field: path.to_owned(),
            severity,
            code: Code::ValueNotServed,
            message,
            remedy: remedy.to_owned(),
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
    }
}

/// Returns the value of a switch as `true` or `false` in any spelling that the program accepts, and
/// other values as they are. A switch without a value is on.
fn switch(value: &Value) -> String {
    let text = scalar(value);
    match text.as_str() {
        "" => "true".to_owned(),
        spelled => parse_bool(spelled).map_or(text, |is_on| is_on.to_string()),
    }
}

/// Returns a value as the text of a flag or ConfigMap key.
fn scalar(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
