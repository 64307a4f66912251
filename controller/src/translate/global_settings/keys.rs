//! Names of keys: which entry of the table a key of a ConfigMap has, and which of several keys
//! applies.
//!
//! ingress-nginx decodes its ConfigMap with mapstructure, which accepts a name in any case if the
//! exact name is missing. It reads some keys itself, by their exact names.

use super::{Key, TABLE};

/// A key of a ConfigMap with its value.
pub(super) type Pair = (Box<str>, Box<str>);

/// Returns the entry of a key, by its exact name or, where ingress-nginx accepts that, by its name
/// in any case.
pub(super) fn entry(name: &str) -> Option<&'static Key> {
    TABLE.get(name).or_else(|| TABLE.get(&name.to_ascii_lowercase()).filter(|entry| has_any_case(entry)))
}

/// Returns the key and value that apply: the exact name or, without it, the first in the order of
/// names. mapstructure takes any of those.
pub(super) fn in_effect<'m>(entry: &Key, data: &'m [Pair]) -> Option<&'m Pair> {
    let exact = data.iter().find(|(name, _)| **name == *entry.name);
    exact.or_else(|| {
        data.iter().find(|(name, _)| has_any_case(entry) && name.eq_ignore_ascii_case(entry.name))
    })
}

/// Returns whether ingress-nginx accepts the name in any case: its settings have a field of this
/// name and type.
fn has_any_case(entry: &Key) -> bool {
    let is_exact = entry.name.starts_with("global-auth-")
        || matches!(entry.name, "bind-address" | "proxy-protocol-header-timeout");
    !is_exact
}
