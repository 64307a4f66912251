//! Helm, run on the chart.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;
use sluice_lab::programs::{Unit, find};

/// Returns the folder of the chart.
pub(crate) fn chart() -> PathBuf {
    root().join("charts/sluice")
}

/// Returns the folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the values files of the chart's tests, by name.
pub(crate) fn cases() -> Vec<(String, PathBuf)> {
    let mut cases: Vec<(String, PathBuf)> = fs::read_dir(chart().join("ci"))
        .expect("charts/sluice/ci")
        .map(|entry| entry.expect("a file").path())
        .map(|path| (path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned(), path))
        .collect();
    cases.sort();
    cases
}

/// Runs Helm on the chart.
///
/// # Errors
/// Helm fails; the error is its output.
pub(crate) fn helm(before: &[&str], arguments: &[&str]) -> Result<String, String> {
    let mut helm = Command::new(find(Unit::Helm, "helm").expect("Helm"));
    let output = helm.args(before).arg(chart()).args(arguments).output().expect("Helm runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stdout) + &text(&output.stderr))
    }
}

/// Renders the chart for a release `gateway` in the namespace `edge`. The error is Helm's output.
pub(crate) fn template(arguments: &[&str]) -> Result<String, String> {
    helm(&["template", "gateway", "--namespace", "edge", "--kube-version", "1.36.0"], arguments)
}

/// Renders the chart with values in YAML.
pub(crate) fn template_values(values: &str) -> Result<String, String> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), values).expect("values");
    let path = file.path().to_str().expect("a path").to_owned();
    template(&["--values", &path])
}

/// Parses the objects of rendered text.
pub(crate) fn objects(rendered: &str) -> Vec<Value> {
    serde_yaml::Deserializer::from_str(rendered)
        .map(|document| Value::deserialize(document).expect("YAML"))
        .filter(|object| !object.is_null())
        .collect()
}

/// Returns the object of a kind and name.
pub(crate) fn object<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    objects
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
        .unwrap_or_else(|| panic!("no {kind} {name} among {}", names(objects)))
}

/// Returns kinds and names, for messages.
pub(crate) fn names(objects: &[Value]) -> String {
    let name = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
    objects.iter().map(name).collect::<Vec<_>>().join(", ")
}
