//! Tables of the contract as Markdown.

use sluice_config::stream_log::StreamLogVariable;
use sluice_config::variable::UNSERVED;
use sluice_config::{Code, LocationDatabase, LocationVariable, Variable, VariableRow};

/// Returns the variables of requests.
pub(crate) fn variables() -> String {
    let mut text =
        String::from("| variable | value | form | known | determined by |\n|---|---|---|---|---|\n");
    let named = Variable::NAMED.iter().chain(Variable::FIELDS).map(|row| (row, ""));
    let rows = named.chain(Variable::FAMILIES.iter().map(|row| (row, "NAME")));
    for (VariableRow { names, known, form, setter, doc }, suffix) in rows {
        let names: Vec<String> = names.iter().map(|name| format!("`${name}{suffix}`")).collect();
        let (known, form, setter) = (known.as_str(), form.as_str(), setter.as_str());
        text.push_str(&format!("| {} | {doc} | {form} | {known} | {setter} |\n", names.join(", ")));
    }
    text
}

/// Returns the variables that are read from GeoIP2 databases.
pub(crate) fn locations() -> String {
    let mut text = String::from("| variable | value | databases |\n|---|---|---|\n");
    for (variable, name, doc) in LocationVariable::ALL {
        let editions =
            |database| LocationDatabase::EDITIONS.iter().filter(move |(_, kind)| *kind == database);
        let editions: Vec<&str> = variable
            .sources()
            .iter()
            .flat_map(|source| editions(source.database))
            .map(|(name, _)| *name)
            .collect();
        text.push_str(&format!("| `${name}` | {doc} | {} |\n", editions.join(", ")));
    }
    text
}

/// Returns the variables that are always empty.
pub(crate) fn unserved() -> String {
    let mut text = String::from("| variable | reason |\n|---|---|\n");
    for (names, reason) in UNSERVED {
        let suffix = |name: &str| if name.ends_with('_') { "NAME" } else { "" };
        let names: Vec<String> = names.iter().map(|name| format!("`${name}{}`", suffix(name))).collect();
        text.push_str(&format!("| {} | {reason} |\n", names.join(", ")));
    }
    text
}

/// Returns the variables of the log of streams.
pub(crate) fn stream_variables() -> String {
    let mut text = String::from("| variable | meaning |\n|---|---|\n");
    for (names, doc) in StreamLogVariable::NAMED {
        let names: Vec<String> = names.iter().map(|name| format!("`${name}`")).collect();
        text.push_str(&format!("| {} | {doc} |\n", names.join(", ")));
    }
    text
}

/// Returns the codes of problems.
pub(crate) fn codes() -> String {
    let mut text = String::from("| code | class | meaning |\n|---|---|---|\n");
    for code in Code::ALL {
        text.push_str(&format!("| `{code}` | {} | {} |\n", code.class(), code.meaning()));
    }
    text
}
