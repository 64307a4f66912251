//! `values.yaml` as its comments describe it: the one source of the schema, the list of refused values and the README.

use std::fs;

use serde_json::{Value, json};

use crate::helm::{chart, root};

/// One value that has a comment `# -- (type) meaning`.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    /// Its path, with dots.
    pub(crate) path: String,
    /// Its type, in the words of the comment.
    pub(crate) kind: String,
    /// What it means, or why it is refused.
    pub(crate) meaning: String,
    /// Its default.
    pub(crate) default: Value,
}

impl Described {
    /// Whether it is there to be refused.
    pub(crate) fn is_refused(&self) -> bool {
        self.kind == "refused"
    }

    /// Whether it has no effect but a note.
    pub(crate) fn is_ignored(&self) -> bool {
        self.kind == "ignored"
    }

    /// What JSON schema has for its type.
    pub(crate) fn schema(&self) -> Value {
        let port = json!({"type": "integer", "minimum": 1, "maximum": 65535});
        let words = json!(["string", "boolean", "integer", "number"]);
        let mut schema = match self.kind.as_str() {
            "boolean" => json!({"type": "boolean"}),
            "boolean or null" => json!({"type": ["boolean", "null"]}),
            "string" => json!({"type": "string"}),
            "string or {}" => json!({"type": ["string", "object"], "maxProperties": 0}),
            "integer" => json!({"type": "integer", "minimum": 0}),
            "integer or null" => json!({"type": ["integer", "null"], "minimum": 0}),
            "integer or percentage" => {
                json!({"type": ["integer", "string"], "minimum": 0, "pattern": "^([0-9]+%)?$"})
            }
            "port" => port,
            // A length of 0 is for texts alone, the bounds are for numbers alone.
            "port or empty" => {
                json!({"type": ["integer", "string"], "minimum": 1, "maximum": 65535, "maxLength": 0})
            }
            "target" => json!({"type": ["integer", "string"], "minimum": 1, "maximum": 65535}),
            "map" => json!({"type": "object"}),
            "map of strings" => json!({"type": "object", "additionalProperties": {"type": words}}),
            "list" => json!({"type": "array"}),
            "list of strings" => json!({"type": "array", "items": {"type": "string"}}),
            "flags" => {
                let names: Vec<String> = flags().into_iter().map(|flag| flag.name).collect();
                json!({"type": "object", "propertyNames": {"enum": names}, "additionalProperties": {"type": words}})
            }
            "keys" => {
                let names: Vec<String> = keys().into_iter().map(|key| key.name).collect();
                json!({"type": "object", "propertyNames": {"enum": names}, "additionalProperties": {"type": words}})
            }
            "refused" | "ignored" => json!({}),
            other => match other.strip_prefix("one of ") {
                Some(values) => json!({"enum": alternatives(values)}),
                None => panic!("{}: values.yaml says it is a {other:?}, which is no type", self.path),
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

/// `"", A, B` as a list.
pub(crate) fn alternatives(values: &str) -> Vec<String> {
    values.split(", ").map(|value| value.trim_matches('"').to_owned()).collect()
}

/// A flag or a ConfigMap key as its document has it.
pub(crate) struct Documented {
    /// Its name.
    pub(crate) name: String,
    /// Its default, as text.
    pub(crate) default: String,
    /// Whether it may be given without a value.
    pub(crate) is_switch: bool,
    /// Why asking for anything else is refused, where it is.
    pub(crate) refused: Option<String>,
}

/// The flags of docs/flags.md. One without an effect is refused with what the document says.
fn flags() -> Vec<Documented> {
    rows("flags.md", "| `--")
        .into_iter()
        .map(|cells| {
            let refused = cells.last().and_then(|meaning| meaning.split_once("**No effect**: "));
            let refused = refused.map(|(_, reason)| reason.trim_end_matches("; remove this flag").to_owned());
            let bare = |cell: &str| cell.trim_matches('`').trim_start_matches("--").to_owned();
            let is_switch = cells[1] == "bool";
            Documented { name: bare(&cells[0]), default: bare(&cells[2]), is_switch, refused }
        })
        .filter(|flag| !["manifests", "version"].contains(&flag.name.as_str()))
        .collect()
}

/// The keys of docs/configmap.md. One that is not served yet is refused, unless it is harmless: the gateway warns then.
fn keys() -> Vec<Documented> {
    let headers = rows("configmap.md", "| name |");
    let support = headers[0].iter().position(|header| header == "support").expect("the column of support");
    rows("configmap.md", "| <a id=")
        .into_iter()
        .map(|cells| {
            let is_served = !["not yet", "never"].iter().any(|word| cells[support].starts_with(word));
            let refused = match cells[support].contains("ignored with a warning") || is_served {
                true => None,
                false => Some("this key is not served yet".to_owned()),
            };
            // Behind the anchor.
            let name = cells[0].split('`').nth(1).unwrap_or_default().to_owned();
            let default = cells[2].trim_matches('`').to_owned();
            Documented { name, default, is_switch: false, refused }
        })
        .collect()
}

/// The cells of each line of a document's tables that begins so.
fn rows(document: &str, beginning: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("docs").join(document)).expect(document);
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    text.lines().filter(|line| line.starts_with(beginning)).map(cells).collect()
}

/// All values, in the order of the file.
///
/// # Panics
/// When one has neither a comment nor values below it.
pub(crate) fn described() -> Vec<Described> {
    let text = fs::read_to_string(chart().join("values.yaml")).expect("values.yaml");
    let defaults: Value = serde_yaml::from_str(&text).expect("values.yaml");
    let mut all = Vec::new();
    let mut above: Vec<&str> = Vec::new();
    let mut comment: Option<(String, String)> = None;
    // What is deeper than this belongs to the value that was described last.
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
        if bare.starts_with('#') {
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

/// The schema of all values.
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
    // Charts above this one keep values of theirs there.
    schema["properties"]["global"]["additionalProperties"] = true.into();
    schema
}

/// What is refused: its path, the only value that it may have if it is there (as `text` where it is a flag or key, in
/// which true and "true" are the same), and why.
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

/// What is ignored: its path, its default, and why.
pub(crate) fn ignored() -> Value {
    let ignored = described().into_iter().filter(Described::is_ignored);
    ignored
        .map(|value| json!({"path": value.path, "default": value.default, "reason": value.meaning}))
        .collect()
}

/// The flags that may be given without a value.
pub(crate) fn switches() -> Value {
    flags().into_iter().filter(|flag| flag.is_switch).map(|flag| flag.name).collect()
}

/// Values that are nothing but a flag: while that has no effect, neither has the value.
const BY_FLAG: [(&str, &str); 2] = [
    ("controller.admissionWebhooks.enabled", "validating-webhook"),
    ("controller.reportNodeInternalIp", "report-node-internal-ip-address"),
];

/// The README of the chart.
pub(crate) fn readme() -> String {
    let mut text = README.to_owned();
    let all = described();
    text.push_str("\n## Values\n\n| value | type | default | meaning |\n|---|---|---|---|\n");
    for value in all.iter().filter(|value| !value.is_refused() && !value.is_ignored()) {
        let kind = match value.kind.as_str() {
            "flags" | "keys" => "map of strings",
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
