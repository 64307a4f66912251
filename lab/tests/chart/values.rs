//! The comments of `values.yaml`: the single source of the schema, the list of rejected values and
//! the README.

use std::fs;

use serde_json::{Value, json};

use crate::helm::{chart, root};

/// One value that has a comment `# -- (type) meaning`, which further lines may continue.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    /// Its path, separated by dots.
    pub(crate) path: String,
    /// Its type, as in the comment.
    pub(crate) kind: String,
    /// Its meaning, or why it is rejected.
    pub(crate) meaning: String,
    /// Its default.
    pub(crate) default: Value,
}

impl Described {
    /// Returns whether it exists only to be rejected.
    pub(crate) fn is_refused(&self) -> bool {
        self.kind == "refused"
    }

    /// Returns whether it has no effect except a note.
    pub(crate) fn is_ignored(&self) -> bool {
        self.kind == "ignored"
    }

    /// Returns the JSON schema of its type.
    pub(crate) fn schema(&self) -> Value {
        let port = json!({"type": "integer", "minimum": 1, "maximum": 65535});
        let words = json!(["string", "boolean", "integer", "number"]);
        let mut schema = match self.kind.as_str() {
            "boolean" => json!({"type": "boolean"}),
            "boolean or null" => json!({"type": ["boolean", "null"]}),
            "string" => json!({"type": "string"}),
            "string or {}" => json!({"type": ["string", "object"], "maxProperties": 0}),
            "integer" => json!({"type": "integer", "minimum": 0}),
            "percentage" => json!({"type": "number", "minimum": 0, "exclusiveMaximum": 100}),
            "integer or null" => json!({"type": ["integer", "null"], "minimum": 0}),
            "integer or percentage" => {
                json!({"type": ["integer", "string"], "minimum": 0, "pattern": "^([0-9]+%)?$"})
            }
            "port" => port,
            "ports" => json!({
                "type": "object",
                "propertyNames": {"pattern": "^[a-z0-9]+(-[a-z0-9]+)*$", "maxLength": 15},
                "additionalProperties": port,
            }),
            // The pattern applies to strings, the bounds to numbers. Tools such as Terraform quote
            // numbers.
            "port or empty" => {
                json!({"type": ["integer", "string"], "minimum": 1, "maximum": 65535, "pattern": "^[0-9]*$"})
            }
            "target" => json!({"type": ["integer", "string"], "minimum": 1, "maximum": 65535}),
            "map" => json!({"type": "object"}),
            "map of strings" => json!({"type": "object", "additionalProperties": {"type": words}}),
            "list" => json!({"type": "array"}),
            "list of strings" => json!({"type": "array", "items": {"type": "string"}}),
            // The templates check the names: Helm's message about a wrong name lacks its path.
            "flags" | "keys" => json!({"type": "object", "additionalProperties": {"type": words}}),
            "refused" | "ignored" => json!({}),
            other => match other.strip_prefix("one of ") {
                Some(values) => json!({"enum": alternatives(values)}),
                None => panic!("{}: values.yaml gives it the unknown type {other:?}", self.path),
            },
        };
        let meaning = match self.kind.as_str() {
            "refused" => format!("Refused: {}.", self.meaning),
            "ignored" => format!("Ignored with a note: {}.", self.meaning),
            _ => self.meaning.clone(),
        };
        schema["description"] = meaning.into();
        schema
    }
}

/// Splits `"", A, B` into a list.
pub(crate) fn alternatives(values: &str) -> Vec<String> {
    values.split(", ").map(|value| value.trim_matches('"').to_owned()).collect()
}

/// A flag or ConfigMap key from its reference document.
pub(crate) struct Documented {
    /// Its name.
    pub(crate) name: String,
    /// Its default, as text.
    pub(crate) default: String,
    /// Whether it may be given without a value.
    pub(crate) is_switch: bool,
    /// Whether its name may be in any case. That of a rejected key may not, so that its other cases
    /// are rejected, too.
    pub(crate) has_any_case: bool,
    /// Why any value but the default is rejected, if it is.
    pub(crate) refused: Option<String>,
}

/// Returns the flags of docs/flags.md. One without an effect is rejected with the document's text.
fn flags() -> Vec<Documented> {
    rows("flags.md", "| `--")
        .into_iter()
        .map(|cells| {
            let refused = cells.last().and_then(|meaning| meaning.split_once("**No effect**: "));
            let refused = refused.map(|(_, reason)| reason.trim_end_matches("; remove this flag").to_owned());
            let bare = |cell: &str| cell.trim_matches('`').trim_start_matches("--").to_owned();
            let is_switch = cells[1] == "bool";
            let name = bare(&cells[0]);
            Documented { name, default: bare(&cells[2]), is_switch, has_any_case: false, refused }
        })
        .filter(|flag| !["manifests", "version"].contains(&flag.name.as_str()))
        .collect()
}

/// Returns the keys of docs/configmap.md. One that is not served is rejected, unless it is
/// harmless; the gateway then logs a warning.
fn keys() -> Vec<Documented> {
    let headers = rows("configmap.md", "| name |");
    let support = headers[0].iter().position(|header| header == "support").expect("the column of support");
    let exact = exact_names();
    let is_exact = |name: &str| {
        exact.iter().any(|exact| match exact.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == exact,
        })
    };
    rows("configmap.md", "| <a id=")
        .into_iter()
        .map(|cells| {
            let is_served = !["not yet", "never"].iter().any(|word| cells[support].starts_with(word));
            let refused = match cells[support].contains("ignored with a warning") || is_served {
                true => None,
                false => Some("this key is not served yet".to_owned()),
            };
            // The name follows an anchor.
            let name = cells[0].split('`').nth(1).unwrap_or_default().to_owned();
            let default = cells[2].trim_matches('`').to_owned();
            let has_any_case = refused.is_none() && !is_exact(&name);
            Documented { name, default, is_switch: false, has_any_case, refused }
        })
        .collect()
}

/// Returns the keys of docs/configmap.md whose names are read in this case only, or their
/// beginnings with a `*`.
fn exact_names() -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/configmap.md")).expect("configmap.md");
    let names = text.split("may be in any case, as in ingress-nginx, except for ").nth(1);
    let names = names.and_then(|rest| rest.split('.').next()).expect("the names that must be exact");
    names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the cells of a document's table rows that begin with this text.
fn rows(document: &str, beginning: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("docs").join(document)).expect(document);
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    text.lines().filter(|line| line.starts_with(beginning)).map(cells).collect()
}

/// Returns all values, in the order of the file.
///
/// # Panics
/// A value has neither a comment nor nested values.
pub(crate) fn described() -> Vec<Described> {
    let text = fs::read_to_string(chart().join("values.yaml")).expect("values.yaml");
    let defaults: Value = serde_yaml::from_str(&text).expect("values.yaml");
    let mut all = Vec::new();
    let mut above: Vec<&str> = Vec::new();
    let mut comment: Option<(String, String)> = None;
    // Deeper lines belong to the last described value.
    let mut opaque: Option<usize> = None;
    for line in text.lines() {
        let bare = line.trim_start();
        let depth = (line.len() - bare.len()) / 2;
        if bare.is_empty() || bare.starts_with("- ") || opaque.is_some_and(|limit| depth > limit) {
            continue;
        }
        opaque = None;
        if let Some(described) = bare.strip_prefix("# -- (") {
            let (kind, meaning) = described.split_once(") ").unwrap_or_else(|| panic!("no type: {line}"));
            comment = Some((kind.to_owned(), meaning.to_owned()));
            continue;
        }
        if let Some(more) = bare.strip_prefix('#') {
            if let Some((_, meaning)) = &mut comment {
                meaning.push_str(more);
            }
            continue;
        }
        let key = bare.split(':').next().unwrap_or(bare);
        above.truncate(depth);
        above.push(key);
        let path = above.join(".");
        let default = above.iter().fold(&defaults, |at, key| &at[*key]).clone();
        match comment.take() {
            Some((kind, meaning)) => {
                opaque = Some(depth);
                all.push(Described { path, kind, meaning, default });
            }
            None => assert!(bare.ends_with(':'), "values.yaml: {path} has no description"),
        }
    }
    all
}

/// Returns the schema of all values.
pub(crate) fn schema() -> Value {
    let mut schema =
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the chart sluice"});
    for value in described() {
        let mut at = &mut schema;
        for key in value.path.split('.') {
            at["type"] = "object".into();
            at["additionalProperties"] = false.into();
            if at["properties"].is_null() {
                at["properties"] = json!({});
            }
            at = &mut at["properties"][key];
        }
        *at = value.schema();
    }
    // Parent charts store their own values there.
    schema["properties"]["global"]["additionalProperties"] = true.into();
    schema
}

/// Returns the rejected values: the path, the only permitted value (as `text` for a flag or key,
/// for which true and "true" are equal), and the reason.
pub(crate) fn refused() -> Value {
    let of_values = described().into_iter().filter(Described::is_refused);
    let of_values =
        of_values.map(|value| json!({"path": value.path, "default": value.default, "reason": value.meaning}));
    let named = |under: &str, all: Vec<Documented>| -> Vec<Value> {
        let entry = |one: Documented| {
            let path = format!("{under}.{}", one.name);
            Some(json!({"path": path, "text": one.default, "reason": one.refused?}))
        };
        all.into_iter().filter_map(entry).collect()
    };
    let mut of_values = of_values.collect::<Vec<_>>();
    for (path, name) in BY_FLAG {
        let flag =
            flags().into_iter().find(|flag| flag.name == name).unwrap_or_else(|| panic!("no flag {name}"));
        of_values
            .extend(flag.refused.map(|reason| json!({"path": path, "default": false, "reason": reason})));
    }
    Value::Array(
        [of_values, named("controller.extraArgs", flags()), named("controller.config", keys())].concat(),
    )
}

/// Returns the ignored values: the path, the default, and the reason.
pub(crate) fn ignored() -> Value {
    let ignored = described().into_iter().filter(Described::is_ignored);
    ignored
        .map(|value| json!({"path": value.path, "default": value.default, "reason": value.meaning}))
        .collect()
}

/// Returns the flags that may be given without a value.
pub(crate) fn switches() -> Value {
    flags().into_iter().filter(|flag| flag.is_switch).map(|flag| flag.name).collect()
}

/// Returns the names of flags and ConfigMap keys that the chart accepts or rejects with a reason:
/// `keys` in this case only, `keysOfAnyCase` in any.
pub(crate) fn names() -> Value {
    let (of_any_case, exact): (Vec<_>, Vec<_>) = keys().into_iter().partition(|key| key.has_any_case);
    let names = |all: Vec<Documented>| all.into_iter().map(|one| one.name).collect::<Vec<_>>();
    json!({"flags": names(flags()), "keys": names(exact), "keysOfAnyCase": names(of_any_case)})
}

/// Values that only set a flag: if that has no effect, neither has the value.
const BY_FLAG: [(&str, &str); 2] = [
    ("controller.admissionWebhooks.enabled", "validating-webhook"),
    ("controller.reportNodeInternalIp", "report-node-internal-ip-address"),
];

/// Returns the README of the chart.
pub(crate) fn readme() -> String {
    let mut text = README.to_owned();
    let all = described();
    text.push_str("\n## Values\n\n| value | type | default | meaning |\n|---|---|---|---|\n");
    for value in all.iter().filter(|value| !value.is_refused() && !value.is_ignored()) {
        let kind = match value.kind.as_str() {
            "flags" | "keys" => "map of strings",
            "ports" => "map of ports",
            kind => kind,
        };
        let kind = kind.replace("\"\"", "empty");
        text += &format!("| `{}` | {kind} | `{}` | {} |\n", value.path, value.default, value.meaning);
    }
    text.push_str(
        "\n## Refused values\n\nSluice does not support these values of the ingress-nginx chart. A value other than \
         the default fails the installation with\nthe reason. So do flags in `controller.extraArgs` without effect \
         ([docs/flags.md](../../docs/flags.md)) and keys in\n`controller.config` that are not served yet \
         ([docs/configmap.md](../../docs/configmap.md)).\n\n| value | reason |\n|---|---|\n",
    );
    for value in all.iter().filter(|value| value.is_refused()) {
        text += &format!("| `{}` | {} |\n", value.path, value.meaning);
    }
    text.push_str(
        "\n## Ignored values\n\nThese values of the ingress-nginx chart have no effect; the installation prints a note.\n\n\
         | value | reason |\n|---|---|\n",
    );
    for value in all.iter().filter(|value| value.is_ignored()) {
        text += &format!("| `{}` | {} |\n", value.path, value.meaning);
    }
    text
}

const README: &str = "# The chart

This page lists the values of the Helm chart; [docs/install.md](../../docs/install.md) describes the installation. Values have the
names and meanings of the ingress-nginx chart 4.15.1, so you can use a values file of that chart, including templates with helpers such
as `ingress-nginx.name`. Unsupported values, unknown names and wrong types are rejected by name, with the reason. The ignored values are
listed below.

This page is generated from the comments of `values.yaml` by `WRITE_DOCS=1 cargo test --locked --workspace --test chart`, like
`values.schema.json`, the lists in `files/*.json` and `examples/cluster/sluice.yaml`.
";
