//! The texts of keys that apply, and all keys with their values, for operators. Secrets are left
//! out of these: values of secret keys, texts of snippets, which may contain credentials, and the
//! user part of URLs.

use sluice_config::redaction::{self, HIDDEN};
use sluice_config::text::one_line;

use super::keys::{self, Pair};
use super::{Key, TABLE};
use crate::store::ConfigMap;
use crate::translate::setting::Support;

/// Maximum length of a value in bytes.
const LONGEST: usize = 512;

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The name as in the ConfigMap.
    pub name: String,
    /// The value of the ConfigMap, or the default.
    pub value: String,
    /// Whether the ConfigMap has the key.
    pub is_set: bool,
}

/// Returns the served keys and those of the ConfigMap, in the order of the table.
pub fn in_effect(config_map: Option<&ConfigMap>) -> Vec<KeyValue> {
    let data = config_map.map(|map| &*map.data).unwrap_or_default();
    let mut all = Vec::new();
    for entry in TABLE.entries() {
        match given(entry, data) {
            Some((name, text)) => {
                all.push(KeyValue { name: name.to_owned(), value: shown(entry, text), is_set: true });
            }
            None if entry.support == Support::Served => {
                all.push(KeyValue {
                    name: entry.name.to_owned(),
                    value: entry.default.to_owned(),
                    is_set: false,
                });
            }
            None => {}
        }
    }
    let unknown = data.iter().filter(|(name, _)| keys::entry(name).is_none());
    all.extend(unknown.map(|(name, _)| KeyValue {
        name: one_line(name, LONGEST).into_owned(),
        value: "(unknown key)".to_owned(),
        is_set: true,
    }));
    all
}

/// Returns the text of a key that applies; `None` if the key counts as absent.
pub fn text_in_effect<'m>(config_map: &'m ConfigMap, name: &str) -> Option<&'m str> {
    given(TABLE.get(name)?, &config_map.data).map(|(_, text)| text)
}

fn given<'m>(entry: &Key, data: &'m [Pair]) -> Option<(&'m str, &'m str)> {
    let (name, value) = keys::in_effect(entry, data)?;
    Some((name, entry.text_of_key(value)?))
}

fn shown(entry: &Key, text: &str) -> String {
    if entry.is_secret {
        return HIDDEN.to_owned();
    }
    if entry.snippet.is_some() || entry.name.ends_with("-snippet") {
        return format!("({} lines of directives)", text.lines().count());
    }
    redaction::without_user(&one_line(text, LONGEST))
}

#[cfg(test)]
mod tests {
    use sluice_config::NamespacedName;

    use super::*;
    use crate::store::{DataFields, ObjectIdentity};

    fn config_map(data: &[(&str, &str)]) -> ConfigMap {
        let data = data.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
        let name = NamespacedName::new("edge", "settings");
        ConfigMap { name, identity: ObjectIdentity::default(), fields: DataFields::All, data }
    }

    #[test]
    fn a_set_key_has_its_value_and_another_one_its_default() {
        let map = config_map(&[
            ("use-gzip", "true"),
            ("gzip-level", " "),
            ("typing-eror", "secret"),
            ("hsts", ""),
            ("Keep-Alive", "7"),
        ]);
        let all = in_effect(Some(&map));
        let of = |name: &str| all.iter().find(|key| key.name == name).unwrap();
        assert!(of("use-gzip").is_set && of("use-gzip").value == "true");
        assert!(!of("gzip-level").is_set && of("gzip-level").value == "1");
        assert!(of("hsts").is_set && of("hsts").value == "false");
        assert!(of("Keep-Alive").is_set && of("Keep-Alive").value == "7");
        assert_eq!(of("typing-eror").value, "(unknown key)");
        assert!(in_effect(None).iter().all(|key| !key.is_set));
    }

    #[test]
    fn no_value_contains_a_secret() {
        let map = config_map(&[
            ("ssl-session-ticket-key", "c2VjcmV0"),
            ("location-snippet", "proxy_set_header Authorization \"Basic c2VjcmV0\";"),
            ("global-auth-url", "https://ann:c2VjcmV0@auth.example/check"),
        ]);
        let all = format!("{:?}", in_effect(Some(&map)));
        assert!(!all.contains("c2VjcmV0"), "{all}");
        assert!(all.contains("https://(hidden)@auth.example/check"), "{all}");
    }
}
