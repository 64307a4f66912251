//! Names of flags and ConfigMap keys that the chart knows.

use serde::Deserialize;

/// Generated from docs/flags.md and docs/configmap.md (the chart tests of `lab/`).
const NAMES: &str = include_str!("../../charts/sluice/files/names.json");

/// The maps of the chart's values whose entries are flags and ConfigMap keys.
#[cfg(test)]
pub(crate) const NAMED: [&str; 2] = [FLAGS, KEYS];
const FLAGS: &str = "controller.extraArgs";
const KEYS: &str = "controller.config";

/// The names of the entries of these maps.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChartNames {
    flags: Vec<String>,
    /// Keys that are read in this case only.
    keys: Vec<String>,
    keys_of_any_case: Vec<String>,
}

impl ChartNames {
    /// Reads the list, which is a part of the program.
    pub(crate) fn read() -> Self {
        serde_json::from_str(NAMES).unwrap_or_default()
    }

    /// Returns whether the chart knows an entry of the map at `path`. Other maps have any entries.
    pub(crate) fn contains(&self, path: &str, name: &str) -> bool {
        let has = |names: &[String], name: &str| names.iter().any(|known| known == name);
        match path {
            FLAGS => has(&self.flags, name),
            KEYS => has(&self.keys, name) || has(&self.keys_of_any_case, &name.to_ascii_lowercase()),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_keys_are_known_in_any_case_and_flags_in_theirs() {
        let names = ChartNames::read();
        for (path, name, is_known) in [
            (KEYS, "use-gzip", true),
            (KEYS, "Use-Gzip", true),
            (KEYS, "bind-address", true),
            (KEYS, "Bind-Address", false),
            (KEYS, "use-gzipp", false),
            (FLAGS, "http-port", true),
            (FLAGS, "HTTP-port", false),
            ("controller.labels", "any", true),
        ] {
            assert_eq!(names.contains(path, name), is_known, "{path}.{name}");
        }
    }
}
