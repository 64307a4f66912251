//! The reference documentation of a table.

use super::{NotYet, OnInvalid, Scope, Support, Table};

/// A table as Markdown, for the reference documentation.
pub fn markdown<S>(table: &Table<S>) -> String {
    let mut text = String::from("| name | type | default | scope | risk | support | meaning |\n");
    text.push_str("|---|---|---|---|---|---|---|\n");
    for entry in table.entries() {
        let support = match entry.support {
            Support::Served if entry.on_invalid == OnInvalid::Default => {
                "served; an invalid value is ignored".to_owned()
            }
            Support::Served => "served".to_owned(),
            Support::NotYet(NotYet::Harmless) => "not yet; ignored with a warning".to_owned(),
            Support::NotYet(NotYet::Protects) if entry.whole_host => {
                "not yet; all routes of its hosts answer 503".to_owned()
            }
            Support::NotYet(NotYet::Protects) => "not yet; routes answer 503".to_owned(),
            Support::NotYet(NotYet::ChangesAnswers) if entry.scope == Scope::Global => {
                "not yet; refused".to_owned()
            }
            Support::NotYet(NotYet::ChangesAnswers) => "not yet; routes answer 503".to_owned(),
            Support::NoEffect(reason) => format!("no effect: {reason}"),
        };
        let scope = match entry.scope {
            Scope::Ingress => "Ingress",
            Scope::Location => "path",
            Scope::Global => "all",
        };
        let default = match (entry.fallback, entry.default) {
            (Some(key), "") => format!("ConfigMap `{key}`"),
            (Some(key), default) => format!("ConfigMap `{key}` (`{default}`)"),
            (None, "") => String::new(),
            (None, default) => format!("`{default}`"),
        };
        let names: Vec<String> = entry.names().map(|name| format!("`{name}`")).collect();
        let row = [
            names.join(", "),
            match entry.refers {
                Some(kind) => format!("{} of a {}", entry.words, kind.as_str()),
                None => entry.words.to_string(),
            },
            default,
            scope.to_owned(),
            entry.risk.as_str().to_owned(),
            support,
            entry.doc.to_owned(),
        ];
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}
