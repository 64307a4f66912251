//! What annotations may do at all.

use super::Settings;
use crate::translate::setting::{Risk, Setting};
use crate::translate::value::{self, Value};

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::no_effect(
        "allow-snippet-annotations",
        Value::Bool,
        "false",
        "snippets are never carried out",
        "Permit annotations with raw text.",
    ),
    Setting::served(
        "annotations-risk-level",
        Value::OneOf(&["Low", "Medium", "High", "Critical"]),
        "High",
        "Highest risk of annotations that are accepted.",
        |text, settings: &mut Settings| {
            settings.gates.risk = risk(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "annotation-value-word-blocklist",
        Value::List,
        "",
        "Words that no annotation value may contain.",
        |text, settings: &mut Settings| {
            settings.gates.blocked_words = value::list(text).map(Into::into).collect();
            Ok(())
        },
    ),
    Setting::served(
        "allow-cross-namespace-resources",
        Value::Bool,
        "false",
        "Annotations may name Secrets and ConfigMaps of other namespaces.",
        |text, settings: &mut Settings| {
            settings.gates.cross_namespace = value::bool(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "strict-validate-path-type",
        Value::Bool,
        "true",
        "Report Exact and Prefix paths with unusual characters.",
        |text, settings: &mut Settings| {
            settings.gates.strict_paths = value::bool(text)?;
            Ok(())
        },
    ),
];

fn risk(text: &str) -> Result<Risk, String> {
    let found = Risk::ALL.into_iter().find(|(_, name)| name.eq_ignore_ascii_case(text.trim()));
    found.map(|(risk, _)| risk).ok_or_else(|| "must be Low, Medium, High or Critical".into())
}
