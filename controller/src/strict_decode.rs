//! Strict decoding of values that another version may have written: unknown parts are errors.
//!
//! An unknown field would otherwise be ignored, and it may be the one that closes a route. The
//! decoded value is therefore encoded again and compared with the original: a part that is missing
//! in the result was not decoded. No type needs an attribute for this, so none can be forgotten.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sluice_config::text::one_line;

/// Reads a value.
///
/// # Errors
/// The first part that is not understood, named by its field only: values may be secret.
pub(crate) fn read<T: DeserializeOwned + Serialize>(original: Value) -> Result<T, String> {
    let read = T::deserialize(&original).map_err(|error| {
        let text = error.to_string();
        match text.starts_with("missing field") {
            true => one_line(&text, 200).into_owned(),
            false => "a value of an unknown kind".to_owned(),
        }
    })?;
    let again = serde_json::to_value(&read).map_err(|_| "what cannot be written again".to_owned())?;
    match lost(&original, &again) {
        Some(path) => Err(format!("{}, which is unknown", one_line(&path, 200))),
        None => Ok(read),
    }
}

/// Returns the path of the first value of `original` that `again` lacks.
fn lost(original: &Value, again: &Value) -> Option<String> {
    let inside = |name: String, deeper: Option<String>| {
        deeper.map(|path| if path.is_empty() { name.clone() } else { format!("{name}.{path}") })
    };
    match (original, again) {
        (Value::Object(original), Value::Object(again)) => original.iter().find_map(|(name, value)| {
            inside(name.clone(), again.get(name).map_or(Some(String::new()), |again| lost(value, again)))
        }),
        (Value::Array(original), Value::Array(again)) if original.len() == again.len() => {
            let mut pairs = original.iter().zip(again).enumerate();
            pairs.find_map(|(index, (value, again))| inside(index.to_string(), lost(value, again)))
        }
        _ => (original != again).then(String::new),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize, Serialize)]
    struct Inner {
        name: String,
        #[serde(default)]
        later: bool,
    }

    #[derive(Debug, PartialEq, Deserialize, Serialize)]
    struct Outer {
        list: Vec<Inner>,
        pair: (u8, Option<u8>),
    }

    #[test]
    fn unknown_fields_are_refused_at_any_depth() {
        let good = json!({"list": [{"name": "a"}], "pair": [1, null]});
        let read: Outer = super::read(good.clone()).unwrap();
        assert_eq!(read.list[0], Inner { name: "a".into(), later: false });
        let with = |change: fn(&mut Value)| {
            let mut value = good.clone();
            change(&mut value);
            super::read::<Outer>(value).unwrap_err()
        };
        assert_eq!(with(|value| value["new"] = json!(null)), "new, which is unknown");
        assert_eq!(with(|value| value["list"][0]["closed"] = json!(true)), "list.0.closed, which is unknown");
        assert!(
            with(|value| drop(value["list"][0].as_object_mut().unwrap().remove("name"))).contains("`name`")
        );
        let secret = with(|value| value["pair"] = json!("secret"));
        assert!(!secret.contains("secret"), "{secret}");
    }
}
