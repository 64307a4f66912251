//! Files generated from `values.yaml` and the chart are up to date; `WRITE_DOCS=1` writes them
//! instead.

use std::fs;
use std::path::Path;

use crate::helm::{chart, helm, root};
use crate::values;

/// The comment above the rendered manifests.
const QUICK_START: &str =
    "# Sluice in a cluster, with the rights that it needs. Set the name of your image, then:
#
#   kubectl apply -f examples/cluster/sluice.yaml
#   kubectl -n sluice-system rollout status deployment/sluice-controller
#
# It serves Ingresses whose ingressClassName is `sluice`. With Helm, install the chart instead
# (docs/install.md), which can also take over the objects of ingress-nginx.
# Rendered from the chart with charts/sluice/ci/quick-start-values.yaml by: make manifests
apiVersion: v1
kind: Namespace
metadata: {name: sluice-system}
";

/// Distributions that included ingress-nginx or have a manifest of it, and the namespace there.
const DISTRIBUTIONS: [(&str, &str); 5] = [
    ("bare-metal", "ingress-nginx"),
    ("k3s", "ingress-nginx"),
    ("kind", "ingress-nginx"),
    ("microk8s", "ingress"),
    ("minikube", "ingress-nginx"),
];

#[test]
fn the_schema_is_that_of_the_values() {
    compare(&chart().join("values.schema.json"), &pretty(&values::schema()));
}

#[test]
fn the_list_of_refused_values_is_that_of_the_values_flags_and_keys() {
    compare(&chart().join("files/refused.json"), &pretty(&values::refused()));
}

#[test]
fn the_list_of_ignored_values_is_that_of_the_values() {
    compare(&chart().join("files/ignored.json"), &pretty(&values::ignored()));
}

#[test]
fn the_list_of_switches_is_that_of_the_flags() {
    compare(&chart().join("files/switches.json"), &pretty(&values::switches()));
}

#[test]
fn the_list_of_names_is_that_of_the_flags_and_keys() {
    compare(&chart().join("files/names.json"), &pretty(&values::names()));
}

#[test]
fn the_readme_is_that_of_the_values() {
    compare(&chart().join("README.md"), &values::readme());
}

#[test]
fn the_quick_start_is_what_the_chart_renders() {
    let values = chart().join("ci/quick-start-values.yaml");
    let rendered = rendered("sluice", "sluice-system", &values);
    compare(&root().join("examples/cluster/sluice.yaml"), &format!("{QUICK_START}{rendered}\n"));
}

#[test]
fn manifests_of_distributions_are_what_the_chart_renders() {
    for (distribution, namespace) in DISTRIBUTIONS {
        let file = format!("{distribution}.yaml");
        let values = root().join("examples/cluster/values").join(&file);
        let text = fs::read_to_string(&values).expect("values");
        let about: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
        let head = format!(
            "{}\n#\n# Put the name of your image in, then: kubectl apply -f examples/cluster/{file}\n# Rendered from the chart with \
             examples/cluster/values/{file} by: make manifests\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n",
            about.join("\n")
        );
        let rendered = rendered("sluice", namespace, &values);
        compare(&root().join("examples/cluster").join(&file), &format!("{head}{rendered}\n"));
    }
}

/// Renders the chart for `kubectl apply`.
fn rendered(release: &str, namespace: &str, values: &Path) -> String {
    let values = values.to_str().expect("a path");
    let rendered = helm(&["template", release, "--namespace", namespace], &["--values", values]);
    let rendered = rendered.expect("the chart renders");
    // Omits the label of the tool that rendered the manifests.
    let lines =
        rendered.lines().filter(|line| !line.starts_with("# Source: ") && !line.contains("helm.sh/chart: "));
    let lines = lines.map(|line| line.replace("managed-by: Helm", "managed-by: kubectl"));
    let rendered: Vec<String> =
        lines.map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect();
    rendered.join("\n")
}

fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

pub(crate) fn compare(path: &Path, text: &str) {
    if std::env::var_os("WRITE_DOCS").is_some() {
        fs::write(path, text).expect("write");
        return;
    }
    let written = fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == text,
        "{} does not match values.yaml and docs/; run WRITE_DOCS=1 cargo test -p sluice-lab --test chart",
        path.display()
    );
}
