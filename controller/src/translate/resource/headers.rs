//! A ConfigMap with one key for each header field.

use sluice_config::HeaderSet;

use super::Bad;
use crate::store::ConfigMap;

/// Reads it. One bad field makes the whole unusable: the others may mean nothing without it.
pub(super) fn read(config_map: &ConfigMap) -> Result<HeaderSet, Bad> {
    let mut fields = Vec::with_capacity(config_map.data.len());
    for (name, value) in &config_map.data {
        let value = value.trim();
        if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
            return Err(Bad {
                reason: format!("has the key {name:?}, which is no name of a header field"),
                remedy: "write letters, digits and hyphens",
            });
        }
        if http::HeaderValue::from_str(value).is_err() {
            return Err(Bad {
                reason: format!("has a value in its key {name:?} that no header field can have"),
                remedy: "write one line without control characters",
            });
        }
        fields.push((name.as_ref().into(), value.into()));
    }
    Ok(HeaderSet { fields })
}

#[cfg(test)]
mod tests {
    use sluice_config::NamespacedName;

    use super::*;
    use crate::store::Fields;

    fn read_of(data: &[(&str, &str)]) -> Result<HeaderSet, Bad> {
        let data = data.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        read(&ConfigMap {
            name: NamespacedName::new("n", "headers"),
            identity: Default::default(),
            fields: Fields::All,
            data,
        })
    }

    #[test]
    fn fields_are_checked_and_bad_ones_named_without_their_value() {
        let set = read_of(&[("X-A", " 1\n"), ("X-Empty", "")]).unwrap();
        assert_eq!(set.fields, [("X-A".into(), "1".into()), ("X-Empty".into(), "".into())]);
        assert!(read_of(&[("X A", "1")]).unwrap_err().reason.contains("\"X A\""));
        let bad = read_of(&[("X-A", "secret\nX-B: 1")]).unwrap_err();
        assert!(bad.reason.contains("\"X-A\"") && !bad.reason.contains("secret"), "{bad:?}");
    }
}
